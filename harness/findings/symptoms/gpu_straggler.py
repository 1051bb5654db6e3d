"""One GPU is slower than the others of its job: at each exchange all wait for it."""

from collections.abc import Callable
from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.gpus import Odd, at_work, odd_one
from harness.findings.symptoms.measure import given
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.metrics.catalogue.gpu import GPU_CLOCK, GPU_SM_ACTIVE
from harness.metrics.window import Window

Far = Callable[[Odd], float]
CLOCK: Final = 0.9
"""Its SM clock in the others'."""
ACTIVITY: Final = 0.2
"""Its SM activity away from the others', as a share of the time."""
NORMAL: Final = 1.25
"""A normal window in which it stood out as much, to within this, is how the job is."""


def check(context: Context, *, clock: float = CLOCK, activity: float = ACTIVITY) -> Symptom | None:
    """Fires where a GPU clocks 10 % lower than the median of the others at work, or its SM activity
    is 20 points away from theirs; among three GPUs or more.
    """  # noqa: D205  one sentence
    if context.fault is None:
        return None
    strengths = [
        found
        for found in (_slow(context, 1 - clock), _unlike(context, activity))
        if found is not None
    ]
    return max(strengths, key=lambda symptom: symptom.strength, default=None)


def _slow(context: Context, limit: float) -> Symptom | None:
    odd = _odd(context.fault, GPU_CLOCK.name, _below, clock="sm")
    usual = _odd(context.normal, GPU_CLOCK.name, _below, clock="sm")
    if odd is None or _below(odd) <= limit or _is_usual(odd, usual, _below):
        return None
    return Symptom(
        name="gpu_straggler",
        seen=(
            f"{odd.name} clocks at {number(odd.value / 1e6)} MHz, the others at "
            f"{number(odd.median / 1e6)} MHz."
        ),
        cause="Its clocks are held down (heat, power, a limit of its own): the others wait for it.",
        fix="nvidia-smi -q -d PERFORMANCE,CLOCK on it; leave it out of the group until mended.",
        strength=_below(odd) / limit,
        evidence=given(
            Figure(what=f"SM clock of {odd.name}", value=odd.value, unit="Hz"),
            Figure(what="median of the others", value=odd.median, unit="Hz"),
        ),
    )


def _unlike(context: Context, limit: float) -> Symptom | None:
    odd = _odd(context.fault, GPU_SM_ACTIVE.name, _away)
    usual = _odd(context.normal, GPU_SM_ACTIVE.name, _away)
    if odd is None or _away(odd) <= limit or _is_usual(odd, usual, _away):
        return None
    is_less = odd.value < odd.median
    return Symptom(
        name="gpu_straggler",
        seen=(
            f"{odd.name}'s SM activity is {percent(odd.value)}, that of the others "
            f"{percent(odd.median)}."
        ),
        cause=(
            "It waits for something of its own: memory, PCIe, its host process."
            if is_less
            else "It has more to do than the others, which wait for it."
        ),
        fix=(
            "Its DRAM activity, PCIe replays and host process first."
            if is_less
            else "An even split of the work: tailbreak split."
        ),
        strength=_away(odd) / limit,
        evidence=given(
            Figure(what=f"SM activity of {odd.name}", value=odd.value, unit="share"),
            Figure(what="median of the others", value=odd.median, unit="share"),
        ),
    )


def _odd(window: Window | None, name: str, far: Far, **labels: str) -> Odd | None:
    """The GPU that is farthest from the others in the mean of a gauge."""
    if window is None:
        return None
    means = {
        called: window.mean(name, uuid=uuid, **labels)
        for uuid, called in at_work(window, name).items()
    }
    return odd_one({key: mean for key, mean in means.items() if mean is not None}, far)


def _below(odd: Odd) -> float:
    return 1 - odd.ratio


def _away(odd: Odd) -> float:
    return abs(odd.value - odd.median)


def _is_usual(odd: Odd, usual: Odd | None, far: Far) -> bool:
    """Whether the same GPU stood out about as much in the normal window."""
    return usual is not None and usual.name == odd.name and far(odd) <= NORMAL * far(usual)
