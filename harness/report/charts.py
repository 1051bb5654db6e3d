"""Which pictures a report has, each drawn for wide and for narrow screens.

The drawing itself is in `curve`, `phase_bars` and `component_dots`; here it is decided what is
drawn of a report, in which order, and how much of a large grid is left to the table.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup
from matplotlib.figure import Figure

from harness.findings.finding import VOID
from harness.report import (
    component_dots,
    curve,
    grid,
    phase_bars,
    plane_chart,
    ratio_forest,
    words,
)
from harness.report.curve_axes import Size
from harness.report.curve_break import shown_breaks
from harness.report.plane import build_plane
from harness.report.ratio_rows import build_forest
from harness.report.schema import Breakpoint, MetricName, Report
from harness.report.svg import inline
from harness.report.table import quantile_key
from harness.report.text import line, short, slug

MAX_AXES: Final = 3
MAX_FACETS: Final = 9
MAX_COMPONENT_CHARTS: Final = 6
MAX_PLANES: Final = 6
WIDE: Final = 1040.0
HALF: Final = 504.0
NARROW: Final = 352.0
_COMPANIONS: Final[tuple[MetricName, ...]] = ("e2e_s", "itl_s", "ttft_s")


@dataclass(frozen=True)
class Chart:
    """One picture with its caption; `svg` holds both widths, of which the page shows one."""

    name: str
    heading: str
    svg: Markup
    captions: tuple[str, ...] = ()
    size: str = "full"


@dataclass(frozen=True)
class CurveSet:
    """The curves along one axis."""

    axis: str
    charts: tuple[Chart, ...]
    companions: tuple[Chart, ...]
    paths: tuple[str, ...]
    left_out: int
    has_open_bound: bool
    has_break: bool
    has_doubtful: bool


@dataclass(frozen=True)
class LegendItem:
    """One entry of the phases' legend."""

    role: str
    name: str
    meaning: str


@dataclass(frozen=True)
class PhaseSet:
    """The phase bars and what their colours mean."""

    charts: tuple[Chart, ...]
    legend: tuple[LegendItem, ...]
    left_out: int


def curve_sets(report: Report) -> list[CurveSet]:
    """Curves along the analysed axis, then along each other axis that has a break."""
    axes = [report.analysis.axis] if report.analysis.axis != words.FACTOR else []
    axes += [
        axis
        for axis in grid.varying_factors(report.cells)
        if axis not in {report.analysis.axis, words.FACTOR}
        and any(b.axis == axis and words.is_found(b) for b in report.breakpoints)
    ]
    sets = (_curve_set(report, axis, i) for i, axis in enumerate(axes[:MAX_AXES]))
    return [found for found in sets if found is not None]


def phase_set(report: Report) -> PhaseSet | None:
    """Phase bars of the leading facets; None where no cell has phases."""
    facets = [f for f in grid.facets(report, report.analysis.axis) if phase_bars.bar_cells(f)]
    if not facets:
        return None
    kept = _leading(facets, 1 if len(facets[0].cells) > 12 else 3)
    colours = phase_bars.choose_colours(cell for facet in kept for cell in facet.cells)
    longest_s = max(phase_bars.longest_s(facet) for facet in kept)
    charts = tuple(
        _phase_chart(facet, colours, longest_s, f"phases-{i}") for i, facet in enumerate(kept)
    )
    legend = tuple(
        LegendItem(role, phase_bars.shown_name(name), words.PHASE_MEANINGS.get(name, ""))
        for name, role in colours.roles.items()
    )
    return PhaseSet(charts, legend, len(facets) - len(kept))


def component_charts(report: Report) -> list[Chart]:
    """Ranked components of each breakpoint that was found, at most six."""
    found = [
        b for b in report.breakpoints if words.is_found(b) and component_dots.shown_components(b)
    ]
    shown = found[:MAX_COMPONENT_CHARTS]
    return [_component_chart(i, b, is_alone=len(shown) == 1) for i, b in enumerate(shown)]


def plane_charts(report: Report) -> list[Chart]:
    """The plane of two axes, panels with a surface first; empty where the map says it all."""
    plane = build_plane(report, quantile_key(report.analysis.q))
    if plane is None:
        return []
    shown = sorted(plane.panels, key=lambda panel: not panel.cuts)[:MAX_PLANES]
    width = WIDE if len(shown) == 1 else HALF
    sizes = {
        width: Size(width, 400 if len(shown) == 1 else 340, has_line_labels=False),
        NARROW: Size(NARROW, 300, has_line_labels=False),
    }
    return [
        _both_widths(
            f"plane-{i}",
            panel.title,
            f"Cells over {short(plane.across)} and {short(plane.down)}: {panel.title}",
            plane_chart.describe(plane, panel),
            lambda width, panel=panel: plane_chart.draw_plane(plane, panel, sizes[width]),  # type: ignore[misc]
            tuple(sizes),
            size="full" if len(shown) == 1 else "half",
            captions=tuple(
                _caption(found, words.short_sentence)
                for found in panel.breaks
                if i == 0 or found not in shown[i - 1].breaks  # said once for all its slices
            ),
        )
        for i, panel in enumerate(shown)
    ]


def ratio_chart(report: Report) -> Chart | None:
    """The comparison as a picture; None where nothing is compared."""
    forest = build_forest(report)
    if forest is None:
        return None
    return _both_widths(
        "ratios",
        "",
        "Ratio to the baseline",
        ratio_forest.describe(forest),
        lambda width: ratio_forest.draw_forest(forest, width),
        (WIDE, NARROW),
    )


def _phase_chart(
    facet: grid.Facet, colours: phase_bars.PhaseColours, longest_s: float, name: str
) -> Chart:
    return _both_widths(
        name,
        facet.title,
        f"Phases of the slowest requests{_at(facet)}",
        phase_bars.describe(facet, colours),
        lambda width: phase_bars.draw_phases(facet, colours, longest_s, width),
        (WIDE, NARROW),
    )


def _component_chart(i: int, breakpoint_: Breakpoint, *, is_alone: bool) -> Chart:
    return _both_widths(
        f"components-{i}",
        words.headline(breakpoint_),
        f"Components behind: {words.headline(breakpoint_)}",
        component_dots.describe(breakpoint_),
        lambda width: component_dots.draw_components(breakpoint_, width),
        (WIDE if is_alone else HALF, NARROW),
        size="full" if is_alone else "half",
        captions=() if breakpoint_.component else (f"{_sentence_case(words.cause(breakpoint_))}.",),
    )


def _curve_set(report: Report, axis: str, place: int) -> CurveSet | None:
    metric, quantile = report.analysis.metric, quantile_key(report.analysis.q)
    facets = [f for f in grid.facets(report, axis) if curve.has_data(f, metric, quantile)]
    if place > 0:
        facets = [f for f in facets if any(map(words.is_found, f.breakpoints))]
    if not facets:
        return None
    kept = _leading(facets, MAX_FACETS)
    is_single = len(kept) == 1
    charts = tuple(
        _curve_chart(report, facet, kept, f"curve-{place}-{i}") for i, facet in enumerate(kept)
    )
    strongest = _leading(kept, 1)[0]
    companions = tuple(
        _companion(report, strongest, other, f"curve-{place}-{slug(other)}", is_single=is_single)
        for other in _COMPANIONS
        if place == 0 and other != metric and curve.has_data(strongest, other, quantile)
    )[:2]
    cells = [cell for facet in kept for cell in facet.cells]
    tails = [cell.metrics.get(metric, {}).get(quantile) for cell in cells]
    return CurveSet(
        axis=axis,
        charts=charts,
        companions=companions,
        paths=tuple(dict.fromkeys(path for facet in kept for path in facet.paths)),
        left_out=len(facets) - len(kept),
        has_open_bound=any(e and (e.high is None or e.low is None) for e in tails),
        has_break=any(shown_breaks(facet, metric, quantile) for facet in kept),
        has_doubtful=any(cell.state in VOID for cell in cells),
    )


def _curve_chart(report: Report, facet: grid.Facet, beside: list[grid.Facet], name: str) -> Chart:
    metric, quantile = report.analysis.metric, quantile_key(report.analysis.q)
    is_single = len(beside) == 1
    wide = Size(WIDE, 430, has_line_labels=True, font=13)
    narrow = Size(NARROW, 330, has_line_labels=False)
    small = Size(NARROW, 270, has_line_labels=False)
    sizes = {WIDE: wide, NARROW: narrow} if is_single else {NARROW: small}
    say = words.sentence if is_single else words.short_sentence
    captions = tuple(_caption(b, say) for b in facet.breakpoints if b.metric == metric)
    return _both_widths(
        name,
        facet.title,
        f"{words.METRICS[metric]} {quantile.upper()} over {short(facet.axis)}{_at(facet)}",
        curve.describe(facet, metric, quantile),
        lambda width: curve.draw_curve(facet, metric, quantile, sizes[width], beside),
        tuple(sizes),
        size="full" if is_single else "third",
        captions=captions,
    )


def _companion(
    report: Report, facet: grid.Facet, metric: MetricName, name: str, *, is_single: bool
) -> Chart:
    quantile = quantile_key(report.analysis.q)
    sizes = {
        HALF: Size(HALF, 280, has_line_labels=True),
        NARROW: Size(NARROW, 250, has_line_labels=False),
    }
    return _both_widths(
        name,
        "" if is_single else facet.title,
        f"{words.METRICS[metric]} {quantile.upper()} over {short(facet.axis)}{_at(facet)}",
        curve.describe(facet, metric, quantile),
        lambda width: curve.draw_curve(facet, metric, quantile, sizes[width], [facet]),
        tuple(sizes),
        size="half",
    )


def _leading(facets: list[grid.Facet], n: int) -> list[grid.Facet]:
    """The `n` facets with most breaks, then largest effects, kept in the order of the grid."""

    def weight(facet: grid.Facet) -> tuple[int, float]:
        found = [b for b in facet.breakpoints if words.is_found(b)]
        return len(found), max((abs(b.effect or 0.0) for b in found), default=0.0)

    ranked = sorted(range(len(facets)), key=lambda i: weight(facets[i]), reverse=True)
    return [facets[i] for i in sorted(ranked[:n])]


def _both_widths(
    name: str,
    heading: str,
    title: str,
    description: str,
    draw: Callable[[float], Figure],
    widths: tuple[float, ...],
    *,
    size: str = "full",
    captions: tuple[str, ...] = (),
) -> Chart:
    classes = ("wide", "narrow") if len(widths) == 2 else ("any",)
    parts = [
        inline(
            draw(width),
            name=f"{name}-{css_class}",
            title=line(title),
            description=description,
            css_class=css_class,
        )
        for width, css_class in zip(widths, classes, strict=True)
    ]
    return Chart(name, heading, Markup("\n".join(parts)), captions, size)  # noqa: S704  escaped in svg


def _caption(breakpoint_: Breakpoint, say: Callable[[Breakpoint], str]) -> str:
    """The breakpoint's sentence and the doubts that came with it."""
    doubts = [line(text, 160) for text in breakpoint_.caveats[:2]]
    more = len(breakpoint_.caveats) - len(doubts)
    rest = [f"And {more} more caveats in report.json."] if more > 0 else []
    ended = [text if text.endswith((".", "!", "?")) else f"{text}." for text in doubts]
    return " ".join([say(breakpoint_), *map(_sentence_case, ended), *rest])


def _sentence_case(text: str) -> str:
    return text[:1].upper() + text[1:]


def _at(facet: grid.Facet) -> str:
    return f" at {facet.title}" if facet.title else ""
