"""Reasoning steps: what each took and how the context grew, in the deepest cells of the grid.

One table for each combination of the other factors, all on one scale; shallower cells repeat the
first rows of the deepest one and are left to `report.json`.
"""

from dataclasses import dataclass
from typing import Final

from harness.report import grid, quantity
from harness.report.quantity import Unit
from harness.report.schema import Cell, Estimate, Quantile, Report, StepFigures

MAX_TABLES: Final = 6


@dataclass(frozen=True)
class StepRow:
    """One step; `bar` is the tail's share of the longest bar, in percent."""

    name: str
    median: str | None
    tail: str | None
    bounds: str
    bar: float
    took: str | None
    context: str | None
    growth: str | None


@dataclass(frozen=True)
class StepTable:
    """The steps of one cell."""

    title: str
    cell: str
    rows: tuple[StepRow, ...]


@dataclass(frozen=True)
class StepTables:
    """All tables; latencies of all are in `unit`."""

    tables: tuple[StepTable, ...]
    unit: Unit
    left_out: int


def build_step_tables(report: Report, quantile: Quantile) -> StepTables | None:
    """The tables, or None where no request had steps."""
    cells = _deepest(report)
    if not cells:
        return None
    shown = cells[:MAX_TABLES]
    steps = [step for cell in shown for step in cell.steps]
    known = [e for step in steps for e in _all(step, quantile)]
    unit = quantity.shared_unit(max((e.value or 0.0 for e in known), default=0.0))
    tails = [step.ttft_s[quantile].value or 0.0 for step in steps if quantile in step.ttft_s]
    longest_s = max(tails, default=0.0)
    varying = list(grid.varying_factors(report.cells))
    tables = tuple(
        StepTable(
            grid.cell_label(cell, varying),
            cell.id,
            tuple(_row(step, quantile, unit, longest_s) for step in cell.steps),
        )
        for cell in shown
    )
    return StepTables(tables, unit, len(cells) - len(shown))


def _deepest(report: Report) -> list[Cell]:
    """Of the cells that differ in depth only, the one with most steps; grid order."""
    found: dict[tuple[tuple[str, object], ...], Cell] = {}
    for cell in report.cells:
        others = tuple((k, v) for k, v in cell.factors.items() if k != "cot_depth")
        before = found.get(others)
        if cell.steps and (before is None or len(cell.steps) > len(before.steps)):
            found[others] = cell
    return list(found.values())


def _all(step: StepFigures, quantile: Quantile) -> list[Estimate]:
    figures = (step.ttft_s.get(quantile), step.duration_s.get("p50"))
    return [estimate for estimate in figures if estimate is not None]


def _row(step: StepFigures, quantile: Quantile, unit: Unit, longest_s: float) -> StepRow:
    tail = step.ttft_s.get(quantile)
    value = tail.value if tail is not None else None
    shown, bounds = (
        quantity.duration_and_bounds(tail.value, tail.low, tail.high, unit) if tail else (None, "")
    )
    return StepRow(
        name="answer" if step.is_answer else str(step.step),
        median=_value(step.ttft_s.get("p50"), unit),
        tail=shown,
        bounds=bounds,
        bar=100 * value / longest_s if value and longest_s else 0.0,
        took=_value(step.duration_s.get("p50"), unit),
        context=_tokens(step.kv_tokens_mean),
        growth=_tokens(step.kv_growth_mean, sign="+"),
    )


def _value(estimate: Estimate | None, unit: Unit) -> str | None:
    if estimate is None or estimate.value is None:
        return None
    return quantity.number(estimate.value * unit.per_second)


def _tokens(mean: float | None, sign: str = "") -> str | None:
    """A mean of counts, to a tenth where it is no whole number."""
    if mean is None:
        return None
    return f"{sign if mean > 0 else ''}{round(mean, 1):,.10g}"
