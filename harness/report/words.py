"""Breakpoints, metrics, phases and verdicts in plain words.

A breakpoint's sentence, place, size and cause are the findings' own (`harness.findings.words`), so
a caption cannot contradict the verdict; nothing here decides anything.
"""

from collections.abc import Mapping
from typing import Final, get_args

from harness.findings.words import (
    NAME_OF_METRIC,
    axis_value,
    axis_words,
    break_sentence,
    cause,
    path_name,
    relative_effect,
    size_interval,
    surface_words,
    where,
)
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
from harness.scenario.acceleration import FACTOR

__all__ = [
    "DOUBTFUL_STATES",
    "FACTOR",
    "KINDS",
    "METRICS",
    "METRIC_MEANINGS",
    "METRIC_NAMES",
    "PATHS",
    "PHASES",
    "PHASE_MEANINGS",
    "STATES",
    "STATE_MARKS",
    "VERDICTS",
    "axis_value",
    "cause",
    "comparison",
    "headline",
    "is_found",
    "marked_state",
    "metric_quantile",
    "path_label",
    "path_name",
    "path_of",
    "path_title",
    "phase_name",
    "place",
    "quantile_name",
    "ranked_share",
    "sentence",
    "short_sentence",
    "size",
    "size_interval",
    "where",
]

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
    "think": "planned pauses",
}
PHASE_MEANINGS: Final = COMPONENTS
STATES: Final[dict[CellState, str]] = {
    "fixed": "as planned",
    "converged": "converged",
    "wide": "interval still wide",
    "nonstationary": "not stationary",
    "saturated": "saturated",
    "invalid-client": "not valid",
    "partial": "partial",
    "failed": "failed",
}
STATE_MARKS: Final[dict[CellState, str]] = {
    "converged": "\u2713",
    "wide": "\u25c7",
    "nonstationary": "\u25b3",
    "saturated": "\u25b2",
    "partial": "\u25a1",
    "invalid-client": "\u2715",
    "failed": "\u2715",
}
"""A sign beside the word, for readers who do not tell colours apart."""
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
    """What draws alike: `baseline`, `accelerated`, or `measured` where the grid has no such factor.

    A list of features is drawn as the accelerated path is; `path_label` names it.
    """
    value = factors.get(FACTOR)
    return PATHS[None if value is None else bool(value)]


def path_label(factors: Mapping[str, Factor]) -> str:
    """`baseline`, `accelerated`, `measured`, or the features: `paged_kv + prefix_cache`."""
    value = factors.get(FACTOR)
    return path_name(value) if isinstance(value, str) else path_of(factors)


def path_title(factors: Mapping[str, Factor]) -> str:
    """`path_label` as a heading: a feature's name keeps its letters."""
    label = path_label(factors)
    return label if isinstance(factors.get(FACTOR), str) else label.capitalize()


def place(factors: Mapping[str, Factor]) -> str:
    """The other factors, `cot_depth 2, frequency_penalty 0.5`; empty without any."""
    rest = ((name, value) for name, value in factors.items() if name != FACTOR)
    return ", ".join(f"{short(name)} {short(quantity.factor_value(value))}" for name, value in rest)


def marked_state(state: CellState) -> str:
    """`\u25c7 interval still wide`; a cell as planned has no sign."""
    return f"{STATE_MARKS.get(state, '')} {STATES[state]}".strip()


def size(breakpoint_: Breakpoint) -> str:
    """`+148 %`, or for a kink `+35 % per doubling`; empty where it is not known."""
    effect = relative_effect(breakpoint_, breakpoint_.effect)
    if effect is None:
        return ""
    return quantity.change(effect) + (" per doubling" if breakpoint_.kind == "kink" else "")


def is_found(breakpoint_: Breakpoint) -> bool:
    """Whether it is a change of regime and not a gradual rise or nothing."""
    return breakpoint_.kind not in {"gradual", "none"}


def headline(breakpoint_: Breakpoint) -> str:
    """A title of a few words: `Baseline: jump between prompt_tokens 224 and 256`."""
    axis = axis_words(breakpoint_.axis)
    at = place(breakpoint_.at)
    subject = _path_named(breakpoint_) + (f" at {at}" if at else "")
    noun = {
        "none": f"no break over {axis}",
        "gradual": f"gradual over {axis}",
        "staircase": f"staircase over {axis}",
        "surface": f"surface over {surface_words(breakpoint_)}",
    }.get(breakpoint_.kind) or f"{KINDS[breakpoint_.kind]} {where(breakpoint_)}"
    title = f"{subject.strip()}: {noun}" if subject else noun
    return title if isinstance(breakpoint_.at.get(FACTOR), str) else title[:1].upper() + title[1:]


def sentence(breakpoint_: Breakpoint) -> str:
    """What the breakpoint says: the verdict's own sentence."""
    return break_sentence(breakpoint_)


def short_sentence(breakpoint_: Breakpoint) -> str:
    """The same below a picture that already names the metric and the other factors."""
    name = metric_quantile(breakpoint_.metric, breakpoint_.q)
    return break_sentence(breakpoint_, _path_named(breakpoint_) or name)


def ranked_share(ranked: RankedComponent) -> str | None:
    """`82 % (75-88)`."""
    return quantity.share_interval(ranked.share, ranked.low, ranked.high)


def comparison(compared: ComparedMetric) -> str:
    """`faster: 55 % less time`; a word without a direction stands alone."""
    ratio, word = compared.ratio, compared.verdict
    if ratio is not None and word in {"faster", "improvement"} and ratio < 1:
        return f"{word}: {quantity.percent(1 - ratio)} less time"
    if ratio is not None and word in {"slower", "regression"} and ratio > 1:
        return f"{word}: {quantity.percent(ratio - 1)} more time"
    return word


def _path_named(breakpoint_: Breakpoint) -> str:
    """`Baseline`, `Accelerated` or the features; empty where the grid has one path."""
    return "" if FACTOR not in breakpoint_.at else path_title(breakpoint_.at)
