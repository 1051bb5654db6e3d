"""A GPU waits for its memory: the memory interface is busy, the processors are not.

How busy the processors are is SM activity where GPM tells it. Without, it is utilisation, the share
of time at which any kernel ran: near 1 in most runs whatever holds the kernels up, so that this
rule then says little, and never wrongly.
"""

from functools import partial
from typing import Final

import numpy as np

from harness.findings.quantity import percent
from harness.findings.symptoms.gpus import gpu_names
from harness.findings.symptoms.measure import figure, given, has_grown
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.metrics.catalogue.gpu import GPU_DRAM_ACTIVE, GPU_SM_ACTIVE, GPU_UTILISATION
from harness.metrics.window import Window

DRAM: Final = 0.92
BUSY: Final = 0.60
SUSTAINED: Final = 0.8
"""Share of the time at which both must hold."""
GROWN: Final = 1.5
LEAST_SAMPLES: Final = 5


def check(
    context: Context, *, dram: float = DRAM, busy: float = BUSY, sustained: float = SUSTAINED
) -> Symptom | None:
    """Fires where some GPU is so for most of the time; worded for the one that is so longest."""
    if context.fault is None:
        return None
    share = partial(_share, dram=dram, busy=busy)
    found = [
        (held, uuid, name)
        for uuid, name in gpu_names(context.fault, GPU_DRAM_ACTIVE.name).items()
        if (
            held := figure(
                context, "share of the time bandwidth-bound", partial(share, uuid), "share"
            )
        )
        and held.value >= sustained
        and has_grown(held, GROWN)
    ]
    if not found:
        return None
    held, uuid, name = max(found, key=lambda each: each[0].value)
    who = name if len(found) == 1 else f"{name} and {len(found) - 1} more"
    return _symptom(context, held, uuid, who, sustained)


def _symptom(context: Context, held: Figure, uuid: str, who: str, sustained: float) -> Symptom:
    memory, processors = (
        figure(context, what, partial(_mean, name, uuid), "share")
        for what, name in (
            ("DRAM activity", GPU_DRAM_ACTIVE.name),
            ("SM activity", GPU_SM_ACTIVE.name),
        )
    )
    used = figure(context, "utilisation", partial(_mean, GPU_UTILISATION.name, uuid), "share")
    busy = processors or used
    told = f"its memory is {percent(memory.value)} busy" if memory else "its memory is busy"
    beside = f", its {busy.what} {percent(busy.value)}" if busy else ""
    return Symptom(
        name="gpu_bandwidth",
        seen=f"{who}: bandwidth-bound {percent(held.value)} of the time; {told}{beside}.",
        cause="Each step reads more bytes than it computes with: small batches, long contexts.",
        fix="Larger batches, a packed KV cache or weights of fewer bits; faster kernels are idle.",
        strength=held.value / sustained,
        evidence=given(held, memory, processors, used),
    )


def _share(uuid: str, window: Window, *, dram: float, busy: float) -> float | None:
    """Share of the samples with the memory over its limit and the processors below theirs."""
    times, memory = window.points(GPU_DRAM_ACTIVE.name, uuid=uuid)
    for name in (GPU_SM_ACTIVE.name, GPU_UTILISATION.name):
        others, processors = window.points(name, uuid=uuid)
        _, left, right = np.intersect1d(times, others, return_indices=True)
        if left.size >= LEAST_SAMPLES:
            return float(np.mean((memory[left] > dram) & (processors[right] < busy)))
    return None


def _mean(name: str, uuid: str, window: Window) -> float | None:
    return window.mean(name, uuid=uuid)
