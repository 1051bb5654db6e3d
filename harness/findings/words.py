"""Findings as sentences: what a person reads first.

One breakpoint, one or two plain sentences. The verdict and the report's captions are built from
the same pieces, so they agree: an open bound stays open, and a component that is not certain is not
called the cause.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from harness.findings.finding import LEVEL, Breakpoint, Factor, Surface
from harness.findings.quantity import (
    TIMES,
    change_interval,
    factor_value,
    fixed,
    number,
    percent,
    share_decimals,
    share_phrase,
)
from harness.findings.text import short
from harness.metrics.phases import COMPONENTS
from harness.scenario.acceleration import ALL, FACTOR

UNIT_OF_AXIS: Mapping[str, str] = {
    "prompt_tokens": "prompt tokens",
    "cot_depth": "reasoning steps",
    "concurrency": "requests in flight",
    "rate_rps": "requests per second",
}
NAME_OF_METRIC: Mapping[str, str] = {
    "ttft_s": "TTFT",
    "ttfo_s": "TTFO",
    "itl_s": "ITL",
    "tpot_s": "TPOT",
    "e2e_s": "E2E",
    "service_ttft_s": "service TTFT",
    "service_e2e_s": "service E2E",
}
_LARGEST_LOG: Final = 50.0
MAX_WORDS: Final = 12
OPEN: Final = "?"
FOLDED: Final = 2
"""So many curves without a break are said one by one."""


def metric_words(metric: str, q: float) -> str:
    """`TTFT P99`."""
    return f"{NAME_OF_METRIC[metric]} P{q * 100:g}"


def path_name(value: Factor) -> str:
    """`baseline`, `accelerated`, or the features: `paged_kv + prefix_cache`."""
    if not isinstance(value, str):
        return "accelerated" if value else "baseline"
    words = ("accelerated" if word == ALL else short(word) for word in value.split(",")[:MAX_WORDS])
    return " + ".join(words)


def where_words(at: Mapping[str, Factor]) -> str:
    """The other factors: `on the baseline path, at frequency_penalty 0.5`; empty without any."""
    parts = []
    rest = dict(at)
    if FACTOR in rest:
        value = rest.pop(FACTOR)
        name = path_name(value)
        parts.append(f"with {name}" if isinstance(value, str) else f"on the {name} path")
    if rest:
        said = (f"{short(name)} {short(factor_value(value))}" for name, value in rest.items())
        parts.append("at " + ", ".join(said))
    return ", ".join(parts)


def break_sentence(item: Breakpoint, subject: str = "") -> str:
    """What happens to the metric along the axis, and what is behind it.

    Without a `subject` it is the metric and the other factors: `TTFT P99 on the baseline path`.
    """
    place = where_words(item.at)
    subject = subject or metric_words(item.metric, item.q) + (f" {place}" if place else "")
    if item.kind == "none" and item.detectable_effect is None:
        over = axis_words(item.axis)
        return f"{subject}: a break over {over} cannot be told from a smooth curve here."
    said = f"{subject} {_predicate(item)}."
    behind = "" if item.kind in ("none", "gradual") else cause(item)
    told = [said, f"{behind}." if behind else "", _confirmed(item)]
    return " ".join(filter(None, told))


def _confirmed(item: Breakpoint) -> str:
    """What fresh requests say of a jump that was found; one they do not show has a caveat."""
    fresh = item.confirmed
    if fresh is None or fresh.effect is None or item.kind == "none":
        return ""
    change = change_interval(fresh.effect, fresh.low, fresh.high)
    return f"Measured again on a fresh start: {change}."


def break_sentences(items: Sequence[Breakpoint]) -> list[str]:
    """A sentence per curve, those with a break first; many curves without one share theirs."""
    quiet = [item for item in items if item.kind == "none"]
    if len(quiet) <= FOLDED:
        return [break_sentence(item) for item in items]
    loud = [break_sentence(item) for item in items if item.kind != "none"]
    n_open = sum(item.detectable_effect is None for item in quiet)
    first = quiet[0]
    said = (
        f"{metric_words(first.metric, first.q)} shows no break over {axis_words(first.axis)} on "
        f"{len(quiet)} of {len(items)} curves"
    )
    if n_open:
        said += f"; on {n_open} of them a break cannot be told from a smooth curve"
    return [*loud, f"{said}."]


def axis_words(axis: str) -> str:
    """`prompt tokens`; an axis without a unit keeps its name."""
    return UNIT_OF_AXIS.get(axis) or short(axis)


def axis_value(value: float) -> str:
    """A place on the axis: whole numbers as they are, others with three digits."""
    return number(value) if value != int(value) else factor_value(value)


def where(item: Breakpoint) -> str:
    """`between 224 and 256 prompt tokens`, or what is known of it: an open bound stays open."""
    if item.kind == "surface":
        return _surface_place(item)
    low, high = item.low, item.high
    if low is not None and high is not None:
        if low == high:
            return f"at {on_axis(item.axis, axis_value(low))}"
        return f"between {on_axis(item.axis, f'{axis_value(low)} and {axis_value(high)}')}"
    if low is not None:
        return f"somewhere above {on_axis(item.axis, axis_value(low))}"
    if high is not None:
        return f"somewhere below {on_axis(item.axis, axis_value(high))}"
    if item.location is not None:
        return f"near {on_axis(item.axis, axis_value(item.location))}, interval unknown"
    return f"at an unknown place over {axis_words(item.axis)}"


def surface_words(item: Breakpoint) -> str:
    """The axes of a surface: `prompt tokens \u00d7 requests in flight`."""
    return f" {TIMES} ".join(axis_words(name) for name in item.axes or [item.axis])


def _surface_place(item: Breakpoint) -> str:
    """`beyond requests in flight \u00d7 prompt tokens = 2,540 (2,410 to 2,660)`."""
    level = item.surface.coefficients.get(LEVEL) if item.surface else None
    if item.surface is None or level is None or level.value is None:
        return f"on a surface over {surface_words(item)}"
    ends = [OPEN if end is None else axis_value(end) for end in (level.low, level.high)]
    return f"beyond {_surface_law(item.surface)} = {axis_value(level.value)} ({' to '.join(ends)})"


def _surface_law(surface: Surface) -> str:
    """The product of the axes that take part, with the exponents that are not 1."""
    said = []
    for name in surface.axes:
        known = surface.coefficients.get(name)
        power = 1.0 if known is None or known.value is None else known.value
        said.append(axis_words(name) + ("" if power == 1.0 else f" ^ {fixed(power, 2)}"))
    return f" {TIMES} ".join(said)


def relative_effect(item: Breakpoint, effect: float | None) -> float | None:
    """An effect as a relative change; a kink's, in log units per octave, for each doubling."""
    is_kink = item.kind == "kink" or (item.surface is not None and item.surface.change == "kink")
    if effect is None or not is_kink:
        return effect
    return math.expm1(min(effect, _LARGEST_LOG))


def size_interval(item: Breakpoint) -> str:
    """`+148 % (+120 to +171 %)`; a kink's is the added rise for each doubling of the axis."""
    effect = relative_effect(item, item.effect)
    if effect is None:
        return ""
    low, high = item.effect_low, item.effect_high
    return change_interval(effect, relative_effect(item, low), relative_effect(item, high))


def cause(item: Breakpoint) -> str:
    """The component behind it and its share, or the ranked ones; empty where nothing is known."""
    if item.component is not None:
        name = short(item.component)
        meaning = COMPONENTS.get(item.component, "as the server names it")
        return f"Behind it: {name} ({meaning}), {_share(item)}"
    known = [(part.component, part.share) for part in item.ranked if part.share is not None]
    if not known:
        return ""
    first = ", ".join(
        f"{short(name)} {fixed(share * 100, share_decimals(share))} %" for name, share in known[:3]
    )
    return f"No single component is certain to hold half of it; ranked: {first}"


def _predicate(item: Breakpoint) -> str:
    """What the metric does: the part of the sentence after its subject."""
    over, size, falls = axis_words(item.axis), size_interval(item), _falls(item)
    match item.kind:
        case "none":
            return f"shows no break over {over}{_detectable(item)}"
        case "gradual":
            verb = "falls" if falls else "rises"
            by = f" by {size}" if size else ""
            return f"{verb} gradually{by} {_span(item)}{_width(item)}: no break{_detectable(item)}"
        case "staircase":
            verb = "falls" if falls else "climbs"
            by = f", such as {size}" if size else ""
            return f"{verb} in several similar steps {_span(item)}{by}: no single break"
        case "surface":
            by = f" by {size}" if size else ""
            return f"changes regime{by} {where(item)}"
        case "kink":
            way = "downwards" if falls else "upwards"
            by = f", by {size} for each doubling" if size else ""
            return f"bends {way} {where(item)}{by}"
        case _:
            verb = "drops" if falls else "jumps"
            tail = " and changes slope there" if item.kind == "both" else ""
            return f"breaks {where(item)}: it {verb} by {size or 'an unknown amount'}{tail}"


def _falls(item: Breakpoint) -> bool:
    return item.effect is not None and item.effect < 0


def on_axis(axis: str, values: str) -> str:
    """`256 prompt tokens`, but `frequency_penalty 0.5`."""
    unit = UNIT_OF_AXIS.get(axis)
    return f"{values} {unit}" if unit else f"{short(axis)} {values}"


def _span(item: Breakpoint) -> str:
    """The stretch of a slow change; the whole axis where it has no bound."""
    if item.low is None and item.high is None:
        return f"over {axis_words(item.axis)}"
    return where(item)


def _width(item: Breakpoint) -> str:
    if item.width_octaves is None or item.width_octaves <= 0:
        return ""
    return f" over {number(item.width_octaves, 2)} octaves"


def _detectable(item: Breakpoint) -> str:
    if item.detectable_effect is None:
        return ""
    size = percent(item.detectable_effect)
    if item.detectable_effect > 1:
        return f"; only a jump above {size} was sure to be seen here"
    return f"; one above {size} would have been seen"


def _share(item: Breakpoint) -> str:
    fall = "change" if item.kind == "kink" else "drop"
    of = f"the {fall}" if _falls(item) else "the rise"
    if item.share is None:
        return f"an unknown share of {of}"
    return share_phrase(item.share, item.share_low, item.share_high, of)
