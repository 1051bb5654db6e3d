"""A GPU's clocks are held down."""

from functools import partial
from typing import Final

from harness.findings.quantity import percent
from harness.findings.symptoms.gpus import gpu_names
from harness.findings.symptoms.measure import figure, given, has_grown
from harness.findings.symptoms.symptom import Context, Symptom
from harness.findings.text import short
from harness.metrics.catalogue.gpu import (
    GPU_CLOCK,
    GPU_TEMPERATURE,
    GPU_THROTTLE,
    HARMLESS_THROTTLES,
    POWER_CAP,
)
from harness.metrics.window import Window

LIMIT: Final = 0.05
"""Share of the time."""
GROWN: Final = 2.0


def check(context: Context) -> Symptom | None:
    """Fires where some GPU is throttled over 5 % of the time, for a reason that costs speed."""
    if context.fault is None:
        return None
    found = [
        (each, labels)
        for labels in context.fault.series(GPU_THROTTLE.name)
        if labels.get("reason", "") not in HARMLESS_THROTTLES
        and (
            each := figure(context, "share of the time throttled", partial(_share, labels), "share")
        )
        and each.value > LIMIT
        and has_grown(each, GROWN)
        and (each.normal is not None or labels.get("reason") != POWER_CAP)
    ]
    if not found:
        return None
    share, labels = max(found, key=lambda pair: pair[0].value)
    uuid, reason = labels.get("uuid", ""), short(labels.get("reason", "?"))
    gpu = gpu_names(context.fault, GPU_THROTTLE.name).get(uuid, "A GPU")
    return Symptom(
        name="gpu_throttled",
        seen=f"{gpu} is throttled {percent(share.value)} of the time: {reason}.",
        cause="Heat, power or hardware protection holds its clocks down.",
        fix="Cooling and air flow first, then the power limit (nvidia-smi -q -d PERFORMANCE).",
        strength=share.value / LIMIT,
        evidence=given(
            share,
            figure(
                context, "SM clock", lambda w: w.mean(GPU_CLOCK.name, uuid=uuid, clock="sm"), "Hz"
            ),
            figure(
                context, "temperature", lambda w: w.maximum(GPU_TEMPERATURE.name, uuid=uuid), "°C"
            ),
        ),
    )


def _share(labels: dict[str, str], window: Window) -> float | None:
    return window.mean(GPU_THROTTLE.name, **labels)
