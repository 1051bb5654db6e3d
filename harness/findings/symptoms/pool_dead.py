"""A pool's engine process is gone."""

from harness.findings.quantity import percent
from harness.findings.symptoms.measure import figure, given, label_values
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.findings.text import short
from harness.metrics.catalogue.server import POOL_UP, RESTARTS


def check(context: Context) -> Symptom | None:
    """Fires where a pool was down for any part of the time, and was not in the normal window."""
    up = [
        (each, pool)
        for pool in label_values(context.fault, POOL_UP.name, "pool")
        if (each := _up(context, pool)) and each.value < 1 and each.normal in (None, 1.0)
    ]
    if not up:
        return None
    first, pool = min(up, key=lambda pair: (pair[0].value, pair[1]))
    again = figure(
        context, "requests that began anew, a second", lambda window: window.rate(RESTARTS.name)
    )
    return Symptom(
        name="pool_dead",
        seen=f"Pool {short(pool)} was down {percent(1 - first.value)} of the time.",
        cause="Its engine process died: killed for memory, or a fault of its device.",
        fix=(
            "Read the server's log for its last words and the system's for an out-of-memory kill; "
            "start the server again, the other pools go on meanwhile."
        ),
        strength=1 / max(first.value, 0.01),
        evidence=given(first, again),
    )


def _up(context: Context, pool: str) -> Figure | None:
    return figure(
        context, f"share of the time {short(pool)} was up",
        lambda window: window.mean(POOL_UP.name, pool=pool), "share",
    )  # fmt: skip
