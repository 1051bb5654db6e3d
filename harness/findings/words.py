"""Findings as sentences: what a person reads first. One breakpoint, one or two plain sentences."""

from collections.abc import Mapping, Sequence

from harness.findings.finding import Breakpoint, Cell, ComparedMetric, Comparison
from harness.metrics.phases import COMPONENTS

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


def metric_words(metric: str, q: float) -> str:
    """`TTFT P99`."""
    return f"{NAME_OF_METRIC[metric]} P{q * 100:g}"


def where_words(at: Mapping[str, object]) -> str:
    """The other factors: `on the baseline path, at frequency_penalty 0.5`; empty without any."""
    parts = []
    rest = dict(at)
    if "accelerated" in rest:
        path = "accelerated" if rest.pop("accelerated") else "baseline"
        parts.append(f"on the {path} path")
    if rest:
        parts.append("at " + ", ".join(f"{name} {_plain(value)}" for name, value in rest.items()))
    return ", ".join(parts)


def break_sentence(item: Breakpoint) -> str:
    """What happens to the metric along the axis, and what is behind it."""
    where = where_words(item.at)
    subject = metric_words(item.metric, item.q) + (f" {where}" if where else "")
    unit = UNIT_OF_AXIS.get(item.axis, item.axis)
    blame = _blame(item)
    match item.kind:
        case "jump" | "both":
            what = f"{subject} breaks between {_plain(item.low)} and {_plain(item.high)} {unit}"
            size = _percent_interval(item.effect, item.effect_low, item.effect_high)
            return f"{what}: it jumps by {size}.{blame}"
        case "kink":
            what = f"{subject} bends upwards at {_plain(item.location)} {unit}"
            where_range = f" (between {_plain(item.low)} and {_plain(item.high)})"
            return f"{what}{where_range}.{blame}"
        case "staircase":
            return f"{subject} climbs in several similar steps over {unit}: no single break.{blame}"
        case "gradual":
            return f"{subject} rises gradually over {unit}: no break{_detectable(item)}."
        case _ if item.detectable_effect is None:
            return f"{subject}: a break over {unit} cannot be told from a smooth curve here."
        case _:
            return f"{subject} shows no break over {unit}{_detectable(item)}."


def comparison_sentence(
    comparison: Comparison, cells: Sequence[Cell], breakpoints: Sequence[Breakpoint]
) -> str:
    """What the accelerated path changes, at the cell where it changes most of the main metric."""
    if not breakpoints:
        return ""
    main = breakpoints[0]
    items = [
        item
        for item in comparison.metrics
        if item.metric == main.metric and item.q == main.q and item.ratio is not None
    ]
    decided = [item for item in items if item.verdict in ("faster", "slower")]
    if not decided:
        return f"The {comparison.candidate} path changes no cell beyond its interval."
    faster = [item for item in decided if item.verdict == "faster"]
    slower = [item for item in decided if item.verdict == "slower"]
    best = min(decided, key=lambda item: item.ratio or 1.0) if faster else None
    text = f"The {comparison.candidate} path is faster in {len(faster)} of {len(items)} cells"
    if slower:
        text += f" and slower in {len(slower)}"
    if best is not None:
        text += f", most at {_cell_words(best, cells)} ({_ratio_words(best)})"
    return text + "."


def _cell_words(item: ComparedMetric, cells: Sequence[Cell]) -> str:
    factors = next(cell.factors for cell in cells if cell.id == item.cell)
    shown = {name: value for name, value in factors.items() if name != "accelerated"}
    return ", ".join(
        f"{_plain(value)} {UNIT_OF_AXIS.get(name, name)}" for name, value in shown.items()
    )


def _ratio_words(item: ComparedMetric) -> str:
    assert item.ratio is not None
    times = f"{1 / item.ratio:.2f}x"
    if item.low and item.high:
        times += f", {1 / item.high:.2f} to {1 / item.low:.2f}"
    return times


def _blame(item: Breakpoint) -> str:
    if item.component is not None:
        share = _share(item.share, item.share_low, item.share_high)
        meaning = COMPONENTS.get(item.component, "as the server names it")
        return f" Behind it: {item.component} ({meaning}), {share}."
    if item.ranked:
        first = ", ".join(
            f"{part.component} {part.share:.0%}" for part in item.ranked[:3] if part.share
        )
        return f" No single component explains it; ranked: {first}."
    return ""


def _detectable(item: Breakpoint) -> str:
    if item.detectable_effect is None:
        return ""
    if item.detectable_effect > 1:
        return f"; only a jump above {item.detectable_effect:.0%} was sure to be seen here"
    return f"; one above {item.detectable_effect:.0%} would have been seen"


def _percent_interval(value: float | None, low: float | None, high: float | None) -> str:
    centre = "an unknown amount" if value is None else f"{value:+.0%}"
    if low is None or high is None:
        return centre
    return f"{centre} ({low:+.0%} to {high:+.0%})"


def _share(value: float | None, low: float | None, high: float | None) -> str:
    if value is None:
        return "an unknown share of the rise"
    centre = f"{value:.0%} of the rise" if value <= 1 else "all of the rise and more"
    if low is None or high is None:
        return centre
    return f"{centre} ({low:.0%} to {high:.0%})"


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
