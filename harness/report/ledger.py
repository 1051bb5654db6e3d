"""The ledger as rows of text: for the page, the terminal and `summary.md` alike.

A row is one set of features beside the baseline, or, indented, beside the smaller set that it
extends. Numbers are the findings' own; nothing here decides anything.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.report import quantity, words
from harness.report.schema import ComparedMetric, ComparedWord, LedgerRow, MetricName, Report
from harness.report.text import short

MARKS: Final[dict[ComparedWord, str]] = {
    "regression": "\u25b2",
    "improvement": "\u25bc",
    "faster": "\u25bc",
    "slower": "\u25b2",
    "same": "=",
    "pass": "=",
    "differs": "\u2260",
    "undecided": "?",
}
METRICS: Final[tuple[MetricName, ...]] = ("ttft_s", "tpot_s", "e2e_s")
MEDIAN: Final = 0.5
SHOWN_ROWS: Final = 40
_NAME_LIMIT: Final = 120


@dataclass(frozen=True)
class Figure:
    """A ratio with its interval, and what it means."""

    text: str
    verdict: ComparedWord
    mark: str

    @property
    def marked(self) -> str:
        """`0.52 (0.47-0.58) v`."""
        return f"{self.text} {self.mark}"


@dataclass(frozen=True)
class LedgerLine:
    """One quantile of a row; None where a side has no value."""

    quantile: str
    figures: tuple[Figure | None, ...]


@dataclass(frozen=True)
class LedgerEntry:
    """A set of features over the baseline, or over a smaller set: then `over` names it."""

    features: str
    over: str
    place: str
    cell: str
    lines: tuple[LedgerLine, ...]

    @property
    def label(self) -> str:
        """`paged_kv + prefix_cache`, or `over paged_kv` below it."""
        return f"over {self.over}" if self.over else self.features


@dataclass(frozen=True)
class Ledger:
    """All rows; one column for each metric, the asked one first."""

    metrics: tuple[str, ...]
    entries: tuple[LedgerEntry, ...]
    has_places: bool
    left_out: int


def build_ledger(report: Report) -> Ledger | None:
    """The rows; None where one set of features, or none, is compared."""
    rows = report.comparison.ledger if report.comparison is not None else []
    if not rows:
        return None
    metrics = told_metrics(report)
    entries = tuple(_entry(row, metrics, told_quantiles(report)) for row in rows[:SHOWN_ROWS])
    return Ledger(
        metrics=tuple(words.METRICS[metric] for metric in metrics),
        entries=entries,
        has_places=len({entry.place for entry in entries}) > 1,
        left_out=len(rows) - len(entries),
    )


def told_metrics(report: Report) -> tuple[MetricName, ...]:
    """The asked metric and the three that a user waits by."""
    return tuple(dict.fromkeys((report.analysis.metric, *METRICS)))


def told_quantiles(report: Report) -> tuple[float, ...]:
    """The asked quantile and the median."""
    return tuple(dict.fromkeys((report.analysis.q, MEDIAN)))


def find(items: Sequence[ComparedMetric], metric: MetricName, q: float) -> ComparedMetric | None:
    """The ratio of this quantile, if there is one."""
    return next((item for item in items if (item.metric, item.q) == (metric, q)), None)


def _entry(
    row: LedgerRow, metrics: Sequence[MetricName], quantiles: Sequence[float]
) -> LedgerEntry:
    return LedgerEntry(
        features=short(words.path_name(row.features), _NAME_LIMIT),
        over=short(words.path_name(row.over), _NAME_LIMIT) if row.over else "",
        place=words.place(row.at),
        cell=row.cell,
        lines=tuple(
            LedgerLine(
                words.quantile_name(q),
                tuple(_figure(find(row.metrics, metric, q)) for metric in metrics),
            )
            for q in quantiles
        ),
    )


def _figure(item: ComparedMetric | None) -> Figure | None:
    text = item and quantity.ratio_interval(item.ratio, item.low, item.high)
    return Figure(text, item.verdict, MARKS[item.verdict]) if item and text else None
