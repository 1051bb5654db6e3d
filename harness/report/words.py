"""Breakpoints, metrics, phases and verdicts in plain words.

The captions of the report say in one or two sentences what a breakpoint's numbers say, and no more:
an open bound stays open, a component that is not certain is not called the cause. The verdict's own
text comes in as data; nothing here decides anything.
"""

import math
from collections.abc import Mapping
from typing import Final, get_args

from harness.findings.words import NAME_OF_METRIC
from harness.metrics.phases import COMPONENTS
from harness.report import quantity
from harness.report.schema import (
    BreakKind,
    Breakpoint,
    CellState,
    ComparedMetric,
    Factor,
    MetricName,
    RankedComponent,
    VerdictStatus,
)
from harness.report.text import short

METRIC_NAMES: Final[tuple[MetricName, ...]] = get_args(MetricName)
METRICS: Final[dict[MetricName, str]] = {name: NAME_OF_METRIC[name] for name in METRIC_NAMES}
METRIC_MEANINGS: Final[dict[MetricName, str]] = {
    "ttft_s": "time from the intended send to the first token",
    "ttfo_s": "time from the intended send to the first token outside the reasoning",
    "itl_s": "gap between two tokens",
    "tpot_s": "mean time per token after the first",
    "e2e_s": "time from the intended send to the last token",
    "service_ttft_s": "time from the real send to the first token",
    "service_e2e_s": "time from the real send to the last token",
}
PHASES: Final[dict[str, str]] = {
    "queue": "waiting for a batch slot",
    "kv_wait": "waiting for KV memory",
    "stall": "resident but not scheduled",
    "tokenize": "tokenizing",
    "embed": "embedding",
    "mask": "mask building",
    "attention": "attention",
    "ffn": "feed-forward layers",
    "kv": "KV cache upkeep",
    "penalty": "sampling penalties",
    "sample": "sampling",
    "detokenize": "detokenizing",
    "store": "journal writes",
    "stream": "streaming",
    "gc": "garbage collection",
    "other": "other server time",
    "network": "network",
    "client": "load generator",
}
PHASE_MEANINGS: Final = COMPONENTS
STATES: Final[dict[CellState, str]] = {
    "fixed": "as planned",
    "converged": "converged",
    "wide": "interval still wide",
    "nonstationary": "not stationary",
    "saturated": "saturated",
    "invalid-client": "client too slow",
    "partial": "partial",
    "failed": "failed",
}
DOUBTFUL_STATES: Final[frozenset[CellState]] = frozenset(
    {"wide", "nonstationary", "saturated", "invalid-client", "partial", "failed"}
)
VERDICTS: Final[dict[VerdictStatus, str]] = {
    "pass": "Pass",
    "improvement": "Improvement",
    "regression": "Regression",
    "requests_failed": "Requests failed",
    "slo_missed": "SLO missed",
    "undecided": "Undecided",
    "suspect": "Suspect",
    "invalid": "Invalid measurement",
}
PATHS: Final[dict[bool | None, str]] = {
    False: "baseline",
    True: "accelerated",
    None: "measured",
}
KINDS: Final[dict[BreakKind, str]] = {
    "jump": "jump",
    "kink": "kink",
    "both": "jump and kink",
    "staircase": "staircase",
    "surface": "surface",
    "gradual": "gradual",
    "none": "none",
}
_LARGEST_LOG: Final = 50.0


def quantile_name(q: float) -> str:
    """0.99 -> P99; 0.999 -> P99.9."""
    return f"P{q * 100:.10g}"


def metric_quantile(metric: MetricName, q: float) -> str:
    """`TTFT P99`."""
    return f"{METRICS[metric]} {quantile_name(q)}"


def phase_name(component: str) -> str:
    """A phase in words; an unknown one keeps its name."""
    return PHASES.get(component) or short(component)


def path_of(factors: Mapping[str, Factor]) -> str:
    """`baseline` or `accelerated`; `measured` where the grid has no such factor."""
    value = factors.get("accelerated")
    return PATHS[value if isinstance(value, bool) else None]


def place(factors: Mapping[str, Factor]) -> str:
    """The other factors, `cot_depth 2, frequency_penalty 0.5`; empty without any."""
    rest = ((name, value) for name, value in factors.items() if name != "accelerated")
    return ", ".join(f"{short(name)} {short(quantity.factor_value(value))}" for name, value in rest)


def size_interval(breakpoint_: Breakpoint) -> str:
    """`+148 % (+120 to +171 %)`; a kink's is the added rise for each doubling of the axis."""
    effect = _relative(breakpoint_, breakpoint_.effect)
    if effect is None:
        return ""
    low, high = breakpoint_.effect_low, breakpoint_.effect_high
    return quantity.change_interval(
        effect, _relative(breakpoint_, low), _relative(breakpoint_, high)
    )


def size(breakpoint_: Breakpoint) -> str:
    """`+148 %`, or for a kink `+35 % per doubling`; empty where it is not known."""
    effect = _relative(breakpoint_, breakpoint_.effect)
    if effect is None:
        return ""
    return quantity.change(effect) + (" per doubling" if breakpoint_.kind == "kink" else "")


def axis_value(value: float) -> str:
    """A place on the axis: whole numbers as they are, others with three digits."""
    return quantity.number(value) if value != int(value) else quantity.factor_value(value)


def is_found(breakpoint_: Breakpoint) -> bool:
    """Whether it is a change of regime and not a gradual rise or nothing."""
    return breakpoint_.kind not in {"gradual", "none"}


def where(breakpoint_: Breakpoint) -> str:
    """`between prompt_tokens 224 and 256`, or what is known of it."""
    axis = short(breakpoint_.axis)
    low, high = breakpoint_.low, breakpoint_.high
    if low is not None and high is not None:
        if low == high:
            return f"at {axis} {axis_value(low)}"
        return f"between {axis} {axis_value(low)} and {axis_value(high)}"
    if low is not None:
        return f"somewhere above {axis} {axis_value(low)}"
    if high is not None:
        return f"somewhere below {axis} {axis_value(high)}"
    if breakpoint_.location is not None:
        return f"near {axis} {axis_value(breakpoint_.location)}, interval unknown"
    return f"at a place along {axis} that is not known"


def headline(breakpoint_: Breakpoint) -> str:
    """A title of a few words: `Baseline: jump between prompt_tokens 224 and 256`."""
    axis = short(breakpoint_.axis)
    at = place(breakpoint_.at)
    subject = _path_before(breakpoint_).strip() + (f" at {at}" if at else "")
    noun = {
        "none": f"no break along {axis}",
        "gradual": f"gradual along {axis}",
        "staircase": f"staircase along {axis}",
        "surface": f"surface over {_axes(breakpoint_)}",
    }.get(breakpoint_.kind) or f"{KINDS[breakpoint_.kind]} {where(breakpoint_)}"
    title = f"{subject.strip()}: {noun}" if subject else noun
    return title[:1].upper() + title[1:]


def sentence(breakpoint_: Breakpoint) -> str:
    """What the breakpoint says, in one or two sentences."""
    name = metric_quantile(breakpoint_.metric, breakpoint_.q)
    at = place(breakpoint_.at)
    subject = f"{_path_before(breakpoint_)}{name}" + (f" at {at}" if at else "")
    return f"{subject} {_predicate(breakpoint_)}."


def short_sentence(breakpoint_: Breakpoint) -> str:
    """The same below a picture that already names the metric and the other factors."""
    name = metric_quantile(breakpoint_.metric, breakpoint_.q)
    return f"{_path_before(breakpoint_).strip() or name} {_predicate(breakpoint_)}."


def cause(breakpoint_: Breakpoint) -> str:
    """Which component is behind it, or the first of the ranked list with its doubt."""
    if breakpoint_.component is not None:
        share = quantity.share_interval(
            breakpoint_.share, breakpoint_.share_low, breakpoint_.share_high
        )
        name = phase_name(breakpoint_.component)
        return f"behind it: {name}" + (f" ({_of_the_rise(share)})" if share else "")
    if not breakpoint_.ranked:
        return "no component is known"
    first = breakpoint_.ranked[0]
    share = _without_brackets(ranked_share(first) or "share unknown")
    name = phase_name(first.component)
    return f"no component is certain to hold half of it; first is {name} ({share})"


def ranked_share(ranked: RankedComponent) -> str | None:
    """`82 % (75-88)`."""
    return quantity.share_interval(ranked.share, ranked.low, ranked.high)


def comparison(compared: ComparedMetric) -> str:
    """`faster: 55 % less time (50-59 %)`."""
    if compared.verdict == "undecided":
        return "undecided"
    if compared.verdict == "same":
        return "same"
    if compared.ratio is None:
        return compared.verdict
    ratio = compared.ratio
    if compared.verdict == "faster":
        return f"faster: {quantity.percent(1 - ratio)} less time" if ratio < 1 else "faster"
    return f"slower: {quantity.percent(ratio - 1)} more time" if ratio > 1 else "slower"


def _path_before(breakpoint_: Breakpoint) -> str:
    """`Baseline ` or `Accelerated `; empty where the grid has one path."""
    if not isinstance(breakpoint_.at.get("accelerated"), bool):
        return ""
    return f"{path_of(breakpoint_.at).capitalize()} "


def _predicate(breakpoint_: Breakpoint) -> str:
    axis = short(breakpoint_.axis)
    kind = breakpoint_.kind
    if kind == "none":
        return f"has no break along {axis}{_detectable(breakpoint_)}"
    size = size_interval(breakpoint_)
    if kind == "gradual":
        by = f" by {size}" if size else ""
        span = where(breakpoint_) if breakpoint_.low is not None else f"along {axis}"
        rise = f"rises gradually{by} {span}{_width(breakpoint_)}"
        return f"{rise}; no place stands out as a break"
    if kind == "staircase":
        by = f", such as {size}" if size else ""
        steps = f"climbs a staircase of similar small steps{by}, {where(breakpoint_)}"
        return f"{steps}; none is a break of its own"
    if kind == "surface":
        by = f" by {size}" if size else ""
        return f"changes regime{by} on a surface over {_axes(breakpoint_)}; {cause(breakpoint_)}"
    falls = breakpoint_.effect is not None and breakpoint_.effect < 0
    by = f" by {size}" if size else ""
    if kind == "kink":
        verb = "starts to climb more slowly" if falls else "starts to climb faster"
        size_said = f", {size} for each doubling," if size else ""
        return f"{verb}{size_said} {where(breakpoint_)}; {cause(breakpoint_)}"
    verb = "drops" if falls else "jumps"
    tail = " and changes slope there" if kind == "both" else ""
    return f"{verb}{by} {where(breakpoint_)}{tail}; {cause(breakpoint_)}"


def _detectable(breakpoint_: Breakpoint) -> str:
    if breakpoint_.detectable_effect is None:
        return " that this grid could show"
    size = quantity.percent(breakpoint_.detectable_effect)
    if breakpoint_.detectable_effect > 1:
        return f"; only a jump above {size} was sure to be seen here"
    return f"; one above {size} would have been seen"


def _relative(breakpoint_: Breakpoint, effect: float | None) -> float | None:
    """A kink's effect is a slope in log units per octave: its factor for each doubling."""
    if effect is None or breakpoint_.kind != "kink":
        return effect
    return math.expm1(min(effect, _LARGEST_LOG))


def _width(breakpoint_: Breakpoint) -> str:
    if breakpoint_.width_octaves is None or breakpoint_.width_octaves <= 0:
        return ""
    return f" over {quantity.number(breakpoint_.width_octaves, 2)} octaves"


def _without_brackets(text: str) -> str:
    return text.replace(" (", ", ").removesuffix(")")


def _of_the_rise(share: str) -> str:
    head, bracket, bounds = share.partition(" (")
    said = f"{head} of the rise"
    return f"{said}, {bounds.removesuffix(')')} %" if bracket else said


def _axes(breakpoint_: Breakpoint) -> str:
    names = breakpoint_.axes or [breakpoint_.axis]
    return f" {quantity.TIMES} ".join(short(name) for name in names)
