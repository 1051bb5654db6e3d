"""*Nightly history*: what finished runs found, night after night, with the intervals they had.

A finished run is a handful of points at its end (`tailbreak export RUN --openmetrics`), so every
query looks back over one step of the picture, or a point would fall between two steps.
"""

from __future__ import annotations

from typing import Final

from dashboards.layout import Row, build, choice, datasource, label
from dashboards.panels import AMBER, RED, graph, stat, table
from dashboards.promql import Scope
from harness.metrics.catalogue import load
from harness.metrics.catalogue.metric import Metric

S: Final = Scope(("service", "scenario", "cell", "metric", "q"))
VERDICTS: Final = "{{status}}"


def _latest(metric: Metric, by: tuple[str, ...], **wanted: str) -> str:
    """The last point of each series within a step."""
    return f"max by ({', '.join(by)}) (last_over_time({S.select(metric, **wanted)}[$__interval]))"


def _ever(metric: Metric, by: tuple[str, ...], **wanted: str) -> str:
    """The last point of each series within the range shown."""
    return f"max by ({', '.join(by)}) (last_over_time({S.select(metric, **wanted)}[$__range]))"


VERDICT: Final = Row(
    "Verdicts",
    (
        stat(
            "Nights with a verdict",
            f"`{load.RUN_VERDICT.name}`: runs that left one, in the range shown.",
            {"": f"sum(count_over_time({S.select(load.RUN_VERDICT)}[$__range]))"},
            unit="short",
        ),
        stat(
            "Regressions",
            f"`{load.RUN_VERDICT.name}` with the status `regression`, in the range shown.",
            {
                "": "sum(count_over_time("
                f"{S.select(load.RUN_VERDICT, status='regression')}[$__range])) or vector(0)"
            },
            unit="short",
            limits=((1, RED),),
        ),
        stat(
            "Undecided or invalid",
            f"`{load.RUN_VERDICT.name}` with the status `undecided` or `invalid`: nights that say "
            "nothing, and are no pass.",
            {
                "": "sum(count_over_time("
                f"{S.select(load.RUN_VERDICT, status='~undecided|invalid')}[$__range])) "
                "or vector(0)"
            },
            unit="short",
            limits=((1, AMBER),),
        ),
        graph(
            "Verdict of each night",
            f"`{load.RUN_VERDICT.name}`: a point for each finished run, by status.",
            {VERDICTS: f"{_latest(load.RUN_VERDICT, ('status',))}"},
            unit="short",
            is_history=True,
            w=12,
            h=4,
        ),
    ),
)
HISTORY: Final = Row(
    "Quantiles, with their intervals",
    (
        graph(
            "Quantile of each cell",
            f"`{load.RUN_QUANTILE.name}`: the value and, dashed, both ends of its interval. A move "
            "inside the band is no move.",
            {"{{cell}} {{path}} {{bound}}": _latest(load.RUN_QUANTILE, ("cell", "path", "bound"))},
            unit="s",
            is_history=True,
            is_log=True,
            w=24,
            h=10,
        ),
        graph(
            "Ratio to the reference",
            f"`{load.RUN_RATIO.name}`: candidate over reference with its interval. Above 1 is "
            "slower; only an interval wholly beyond the limit is a regression.",
            {
                "{{cell}} over {{over}} {{bound}}": _latest(
                    load.RUN_RATIO, ("cell", "over", "bound")
                )
            },
            unit="none",
            limits=((1, AMBER),),
            is_history=True,
            w=24,
        ),
    ),
)
BREAKS: Final = Row(
    "Breakpoints",
    (
        graph(
            "Where it breaks",
            f"`{load.RUN_BREAKPOINT.name}`: location on the axis, and its interval. A break that "
            "wanders to the left is capacity lost.",
            {
                "{{axis}} {{at}} {{path}} {{kind}} {{bound}}": _latest(
                    load.RUN_BREAKPOINT, ("axis", "at", "path", "kind", "bound")
                )
            },
            unit="none",
            is_history=True,
            w=12,
        ),
        graph(
            "Who is to blame",
            f"`{load.RUN_SHARE.name}`: share of the break's rise that each component explains.",
            {"{{component}} {{at}} {{path}}": _latest(load.RUN_SHARE, ("component", "at", "path"))},
            unit="percentunit",
            is_history=True,
            low=0,
            high=1,
            w=12,
        ),
        table(
            "Latest quantiles",
            f"`{load.RUN_QUANTILE.name}`: the last value of each cell in the range shown.",
            _ever(load.RUN_QUANTILE, ("version", "cell", "path", "metric", "q"), bound="value"),
            {
                "version": "Version",
                "cell": "Cell",
                "path": "Path",
                "metric": "Metric",
                "q": "q",
                "Value": "Value",
            },
            unit="s",
            w=24,
            h=10,
        ),
    ),
)

BOARD: Final = build(
    name="nightly",
    title="tailbreak: Nightly history",
    text="Finished runs, night after night.",
    variables=(
        datasource(),
        label("service", "Service", load.RUN_VERDICT),
        label("scenario", "Scenario", load.RUN_VERDICT, "service"),
        label("cell", "Cell", load.RUN_QUANTILE, "service", "scenario"),
        choice("metric", "Metric", ("ttft_s", "itl_s", "tpot_s", "e2e_s"), "ttft_s"),
        choice("q", "Quantile", ("0.5", "0.9", "0.99"), "0.99"),
    ),
    rows=(VERDICT, HISTORY, BREAKS),
    since="now-30d",
    refresh="",
)
