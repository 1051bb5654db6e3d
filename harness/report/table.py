"""The full table: one row for each cell.

It shows the analysed metric at three quantiles and the tail of the others; `cells_csv` has every
number. Sorting uses the numbers, not their text.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.report import grid, quantity, words
from harness.report.quantity import Unit
from harness.report.schema import Cell, Estimate, MetricName, Quantile, Report
from harness.report.text import line, short, unique_slugs
from harness.stats.quantile_ci import n_for_finite

QUANTILES: Final[dict[Quantile, float]] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_SHOWN_BESIDE: Final[tuple[MetricName, ...]] = ("ttft_s", "e2e_s", "itl_s", "tpot_s")
_NOTES_SHOWN: Final = 3
_CHOICES_LIMIT: Final = 40
_GOOD_OUTCOME: Final = "ok"  # and ok_length, ok_no_done, ok_no_finish


@dataclass(frozen=True)
class Column:
    """A heading; numbers stand to the right."""

    title: str
    unit: str = ""
    is_number: bool = True
    meaning: str = ""
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Entry:
    """What stands in one square of the table.

    Attributes:
        text: the value, or None where it is undefined.
        interval: the bounds in brackets, or empty.
        note: a second line.
        reason: why the value is undefined or a bound open.
        sort: what to sort by; empty goes last.
        notes: several lines, for the last column.
    """

    text: str | None
    interval: str = ""
    note: str = ""
    reason: str = ""
    sort: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """One cell of the grid."""

    cell: str
    anchor: str
    name: str
    label: str
    is_doubtful: bool
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Table:
    """Headings and rows."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    constants: str


def quantile_key(q: float) -> Quantile:
    """The stored quantile nearest to `q`."""
    return min(QUANTILES, key=lambda name: abs(QUANTILES[name] - q))


def row_anchors(report: Report) -> list[str]:
    """Element id of each row, `cell-c03`; distinct even where cell ids are not."""
    return [f"cell-{slug}" for slug in unique_slugs([cell.id for cell in report.cells])]


def anchors(report: Report) -> dict[str, str]:
    """Element id by cell id."""
    pairs = zip(report.cells, row_anchors(report), strict=True)
    return {cell.id: anchor for cell, anchor in reversed(list(pairs))}


def build_table(report: Report) -> Table:
    """The rows of the page."""
    varying = list(grid.varying_factors(report.cells))
    metrics = _metric_columns(report)
    units = {
        (metric, quantile): _column_unit(report.cells, metric, quantile)
        for metric, quantile in metrics
    }
    columns = [Column("Cell", is_number=False)]
    columns += [_factor_column(report, name) for name in varying]
    states = dict.fromkeys(words.marked_state(cell.state) for cell in report.cells)
    columns += [Column("State", is_number=False, choices=_choices(states))]
    columns += [
        Column("n", meaning="requests; in brackets how many independent ones they are worth")
    ]
    columns += [
        Column(
            f"{words.METRICS[metric]} {quantile.upper()}",
            units[metric, quantile].name,
            meaning=words.METRIC_MEANINGS[metric],
        )
        for metric, quantile in metrics
    ]
    columns += [Column("Completed", "/s"), Column("Tokens", "in / out"), Column("Failed")]
    columns += [Column("Notes", is_number=False)]
    rows = tuple(
        Row(
            cell.id,
            anchor,
            short(cell.id),
            grid.cell_label(cell, varying),
            cell.state in words.DOUBTFUL_STATES,
            tuple(_entries(report, cell, varying, metrics, units)),
        )
        for cell, anchor in zip(report.cells, row_anchors(report), strict=True)
    )
    return Table(tuple(columns), rows, _constants(report, varying))


def open_bound_reason(estimate: Estimate, q: float, confidence: float, cell: Cell) -> str:
    """How many requests more would close the bound; empty where it is closed or cannot be said."""
    if estimate.low is not None and estimate.high is not None:
        return ""
    if not 0 < q < 1 or not 0 < confidence < 1:
        return ""
    if cell.stop is not None:
        needed = cell.stop.n_needed
        return f"needs {quantity.count(needed)} more" if needed else ""
    worth = math.floor(cell.n if cell.n_effective is None else cell.n_effective)
    if worth <= 0 or cell.n <= 0:
        return ""
    missing = math.ceil(n_for_finite(q, confidence) * cell.n / worth) - cell.n
    return f"needs {quantity.count(missing)} more" if missing > 0 else ""


def failed_requests(cell: Cell) -> int:
    """Requests of a cell that did not end well."""
    return sum(n for name, n in cell.outcomes.items() if not name.startswith(_GOOD_OUTCOME))


def no_value_reason(cell: Cell, what: str) -> str:
    """Why an estimate is undefined, from the cell's own caveats."""
    if cell.n == 0:
        return f"{what}: no request completed"
    if cell.caveats:
        return f"{what} undefined: {line(cell.caveats[0], 160)}"
    return f"{what} was not measured in this cell"


def _metric_columns(report: Report) -> list[tuple[MetricName, Quantile]]:
    first = report.analysis.metric
    tail = quantile_key(report.analysis.q)
    present = [m for m in _SHOWN_BESIDE if any(cell.metrics.get(m) for cell in report.cells)]
    if any(cell.metrics.get("ttfo_s") != cell.metrics.get("ttft_s") for cell in report.cells):
        present.append("ttfo_s")
    order = [tail, *(quantile for quantile in QUANTILES if quantile != tail)]
    columns: list[tuple[MetricName, Quantile]] = [(first, quantile) for quantile in order]
    columns += [
        (metric, tail)
        for metric in present
        if metric != first and any(cell.metrics.get(metric) for cell in report.cells)
    ]
    return columns


def _factor_column(report: Report, name: str) -> Column:
    if name == words.FACTOR:
        paths = dict.fromkeys(words.path_label(cell.factors) for cell in report.cells)
        return Column("path", is_number=False, choices=_choices(paths))
    values = [cell.factors[name] for cell in report.cells if name in cell.factors]
    shown = dict.fromkeys(
        short(quantity.factor_value(v), 60) for v in sorted(values, key=grid.order)
    )
    return Column(short(name), is_number=all(map(grid.is_number, values)), choices=_choices(shown))


def _choices(values: Iterable[str]) -> tuple[str, ...]:
    """Values to choose from where there are some, and not too many."""
    found = tuple(values)
    return found if 2 <= len(found) <= _CHOICES_LIMIT else ()


def _column_unit(cells: Sequence[Cell], metric: MetricName, quantile: Quantile) -> Unit:
    values = grid.estimate_values(cells, metric, quantile)
    return quantity.shared_unit(max(values, default=0.0))


def _entries(
    report: Report,
    cell: Cell,
    varying: Sequence[str],
    metrics: Sequence[tuple[MetricName, Quantile]],
    units: dict[tuple[MetricName, Quantile], Unit],
) -> Iterable[Entry]:
    for name in varying:
        value = cell.factors.get(name)
        if value is None:
            yield Entry(None, reason=f"the cell has no {short(name)}")
        elif name == words.FACTOR:
            label = words.path_label(cell.factors)
            yield Entry(label, sort=label if isinstance(value, str) else str(int(bool(value))))
        else:
            yield Entry(short(quantity.factor_value(value), 60), sort=short(str(value), 60))
    yield _state_entry(cell)
    effective = cell.n_effective
    worth = f"({quantity.count(effective)})" if effective is not None else ""
    yield Entry(quantity.count(cell.n), interval=worth, sort=str(cell.n))
    for metric, quantile in metrics:
        yield _estimate_entry(report, cell, metric, quantile, units[metric, quantile])
    rate = cell.completed_rps
    yield (
        Entry(None, reason=no_value_reason(cell, "rate"))
        if rate is None
        else Entry(quantity.number(rate), sort=repr(rate))
    )
    yield _tokens_entry(cell)
    failed = failed_requests(cell)
    kinds = tuple(
        f"{short(name)}: {quantity.count(n)}"
        for name, n in sorted(cell.outcomes.items())[:8]
        if not name.startswith(_GOOD_OUTCOME) and n
    )
    yield Entry(quantity.count(failed), sort=str(failed), notes=kinds)
    yield _notes_entry(cell)


def _state_entry(cell: Cell) -> Entry:
    """The state; how narrow it came, and how many requests more the width asked for would take."""
    return Entry(words.marked_state(cell.state), sort=cell.state, notes=_stop_notes(cell))


def _stop_notes(cell: Cell) -> tuple[str, ...]:
    stop = cell.stop
    if stop is None:
        return ()
    width = (
        f"\u00b1 {quantity.percent(stop.half_width)}"
        if stop.half_width is not None
        else "a bound is open"
    )
    said = [f"{width}, {quantity.many(stop.n_starts, 'start')}"]
    if stop.n_needed:
        said.append(f"about {quantity.count(stop.n_needed)} requests more")
    elif cell.state == "wide":
        said.append("no number of requests is known to do")
    if stop.r_hat is not None:
        said.append(f"R-hat {quantity.fixed(stop.r_hat, 3)}")
    if stop.n_cut:
        said.append(f"{quantity.count(stop.n_cut)} cut as warm-up")
    return tuple(said)


def _estimate_entry(
    report: Report, cell: Cell, metric: MetricName, quantile: Quantile, unit: Unit
) -> Entry:
    what = f"{words.METRICS[metric]} {quantile.upper()}"
    estimate = cell.metrics.get(metric, {}).get(quantile)
    if estimate is None:
        return Entry(None, reason=no_value_reason(cell, what))
    value, bounds = quantity.duration_and_bounds(estimate.value, estimate.low, estimate.high, unit)
    if value is None:
        return Entry(None, reason=no_value_reason(cell, what))
    reason = open_bound_reason(estimate, QUANTILES[quantile], report.analysis.confidence, cell)
    known = estimate.value if estimate.value is not None else estimate.low
    return Entry(
        value,
        interval=bounds,
        note=reason,
        reason=reason and f"open bound: {reason} requests",
        sort="" if known is None else repr(known),
    )


def _tokens_entry(cell: Cell) -> Entry:
    prompt, output = cell.tokens.prompt_mean, cell.tokens.output_mean
    if prompt is None and output is None:
        return Entry(None, reason=no_value_reason(cell, "token counts"))
    sides = [quantity.DASH if side is None else quantity.number(side) for side in (prompt, output)]
    source = f"counted by {short(cell.tokens.count_source)}" if cell.tokens.count_source else ""
    return Entry(" / ".join(sides), reason=source, sort=repr(prompt or 0.0))


def _notes_entry(cell: Cell) -> Entry:
    notes = [line(caveat, 160) for caveat in cell.caveats[:_NOTES_SHOWN]]
    more = len(cell.caveats) - _NOTES_SHOWN
    if more > 0:
        notes.append(f"and {more:,} more in report.json")
    if cell.features:
        shown = ", ".join(short(name) for name in cell.features[:6])
        notes.append(f"features: {shown}" + (" \u2026" if len(cell.features) > 6 else ""))
    return Entry("", notes=tuple(notes), sort=str(len(cell.caveats)))


def _constants(report: Report, varying: Sequence[str]) -> str:
    if not report.cells:
        return ""
    first = report.cells[0].factors
    fixed = {name: value for name, value in first.items() if name not in varying}
    parts = [
        f"{short(name)} {short(quantity.factor_value(value))}" for name, value in fixed.items()
    ]
    return ", ".join(parts[:12])
