"""One phase of the computation takes longer than normal."""

from functools import partial
from typing import Final

from harness.findings.quantity import number
from harness.findings.symptoms.measure import figure, given, ratio
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.server import INFER_DURATION, PHASE_DURATION
from harness.metrics.phases import SERVER_PHASES
from harness.metrics.window import Window

PHASES: Final = tuple(
    phase for phase in SERVER_PHASES if phase not in {"queue", "kv_wait", "gc", "store"}
)
"""Those with a rule of their own left out."""
LIMIT: Final = 0.15
"""Rise of the phase, of a whole normal inference."""
GROWN: Final = 1.5


def check(context: Context) -> Symptom | None:
    """Fires where a phase is half as long again, and adds 15 % to a normal request's time."""
    whole = figure(context, "a whole request", _whole, "s")
    if whole is None or not whole.normal:
        return None
    found = []
    for phase in PHASES:
        each = figure(context, f"{phase} a request", partial(_each, phase=phase), "s")
        if each and each.normal is not None and each.value > GROWN * each.normal:
            found.append(((each.value - each.normal) / whole.normal, phase, each))
    rise, phase, each = max(found, key=lambda item: item[0], default=(0.0, "", None))
    if each is None or rise <= LIMIT:
        return None
    return Symptom(
        name="slow_phase",
        seen=(
            f"{phase} ({SERVER_PHASES[phase]}) takes {number(each.value * 1e3)} ms a request, "
            f"normally {number((each.normal or 0.0) * 1e3)} ms."
        ),
        cause="Longer contexts or larger batches, a slower path, or a slower machine.",
        fix="tailbreak run over prompt_tokens and concurrency says which; compare the versions.",
        strength=rise / LIMIT,
        evidence=given(each, whole),
    )


def _each(window: Window, phase: str) -> float | None:
    return ratio(
        window.rate(f"{PHASE_DURATION.name}_sum", phase=phase),
        window.rate(f"{INFER_DURATION.name}_count"),
    )


def _whole(window: Window) -> float | None:
    return ratio(
        window.rate(f"{INFER_DURATION.name}_sum"), window.rate(f"{INFER_DURATION.name}_count")
    )
