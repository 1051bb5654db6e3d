"""The KV arena is full: sequences wait for memory, or lose theirs and are recomputed."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import (
    figure,
    first,
    given,
    has_grown,
    ratio,
    requests_per_s,
    worst,
)
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.server import (
    EVICTIONS,
    INFER_DURATION,
    KV_CAPACITY,
    KV_HELD,
    PHASE_DURATION,
)
from harness.metrics.window import Window

LIMIT_EVICTED: Final = 0.02
"""Evictions a request."""
LIMIT_WAIT: Final = 0.1
"""Share of a request's time that it waits for memory."""
GROWN: Final = 1.5


def check(context: Context) -> Symptom | None:
    """Fires where 2 % of the requests are evicted, or wait for memory a tenth of their time."""
    evicted = figure(context, "evictions a request", _evicted)
    wait = figure(context, "share of a request's time waiting for memory", _wait, "share")
    over = [
        (each.value / limit, each)
        for each, limit in ((wait, LIMIT_WAIT), (evicted, LIMIT_EVICTED))
        if each is not None and each.value > limit and has_grown(each, GROWN)
    ]
    if not over:
        return None
    strength, first = max(over, key=lambda pair: pair[0])
    held = figure(context, "share of the KV memory held", _held, "share")
    told = f" {percent(held.value)} of the KV memory is held." if held else ""
    short = (
        f"Requests wait {percent(first.value)} of their time for KV memory."
        if first is wait
        else f"{number(first.value)} evictions a request."
    )
    return Symptom(
        name="kv_pressure",
        seen=f"{short}{told}",
        cause="The contexts in flight need more KV memory than there is.",
        fix=(
            "Use paged_kv instead of contiguous ranges, prefix_cache, or packed_state; give more "
            "memory (--kv-tokens); let fewer sequences in (--max-num-seqs)."
        ),
        strength=strength,
        evidence=given(first, *(each for each in (wait, evicted) if each is not first), held),
    )


def _evicted(window: Window) -> float | None:
    evictions = first(window.rate, EVICTIONS, canonical.PREEMPTIONS)
    return ratio(evictions, requests_per_s(window))


def _wait(window: Window) -> float | None:
    return ratio(
        window.rate(f"{PHASE_DURATION.name}_sum", phase="kv_wait"),
        window.rate(f"{INFER_DURATION.name}_sum"),
    )


def _held(window: Window) -> float | None:
    found = worst(window, KV_HELD.name, "pool", lambda pool: _pool(window, pool))
    return found[0] if found else window.mean(canonical.KV_USAGE.name)


def _pool(window: Window, pool: str) -> float | None:
    return ratio(window.mean(KV_HELD.name, pool=pool), window.mean(KV_CAPACITY.name, pool=pool))
