"""The steps of the deepest cells, as the page shows them."""

from harness.report.html import render_html
from harness.report.schema import Cell, Estimate, Report, StepFigures
from harness.report.step_table import MAX_TABLES, build_step_tables
from tests.unit.report.make_report import make_grid_report, make_report


def make_step(step: int, *, is_answer: bool = False, ttft_s: float | None = 0.02) -> StepFigures:
    """A step of eight tokens whose TTFT P99 is `ttft_s`."""
    tail = {} if ttft_s is None else {"p99": Estimate(value=ttft_s, low=ttft_s / 2, high=None)}
    return StepFigures(
        step=step, is_answer=is_answer, n=50, ttft_s=tail,
        duration_s={"p50": Estimate(value=0.1, low=None, high=None)},
        tokens_mean=8.0, kv_tokens_mean=176.0 + 15.25 * step, kv_growth_mean=15.25,
    )  # fmt: skip


def with_steps(report: Report) -> Report:
    """The report with depth + 1 steps in every cell."""

    def deepen(cell: Cell) -> Cell:
        depth = int(cell.factors.get("cot_depth", 2))
        steps = [make_step(i + 1, is_answer=i == depth) for i in range(depth + 1)]
        return cell.model_copy(update={"steps": steps})

    return report.model_copy(update={"cells": [deepen(cell) for cell in report.cells]})


def test_the_deepest_cell_of_each_combination_is_shown() -> None:
    """Cells that differ in depth only share one table, that of the deepest."""
    report = with_steps(make_grid_report())
    found = build_step_tables(report, "p99")
    assert found is not None
    others = {tuple((k, v) for k, v in c.factors.items() if k != "cot_depth") for c in report.cells}
    assert len(found.tables) == MAX_TABLES
    assert found.left_out == len(others) - MAX_TABLES
    assert all("cot_depth 4" in table.title for table in found.tables)
    assert [row.name for row in found.tables[0].rows] == ["1", "2", "3", "4", "answer"]


def test_a_row_has_value_interval_and_growth() -> None:
    """20 ms with an open bound; the context in tokens and what the step added."""
    found = build_step_tables(with_steps(make_report()), "p99")
    assert found is not None
    row = found.tables[0].rows[0]
    assert (row.tail, row.bounds, row.took) == ("20.0", "(10.0\u2013?)", "100")
    assert (row.context, row.growth) == ("191.2", "+15.2")
    assert row.bar == 100.0


def test_without_steps_there_is_no_section() -> None:
    """A plain run's page has no step tables; a chain's has them, linked from the contents."""
    assert build_step_tables(make_report(), "p99") is None
    assert 'id="steps"' not in render_html(make_report())
    page = render_html(with_steps(make_report()))
    assert 'id="steps"' in page
    assert 'href="#steps"' in page


def test_a_step_without_a_first_token_is_undefined_not_nought() -> None:
    """Every request broke off there: a dash with its reason, no bar."""
    steps = [make_step(1), make_step(2, is_answer=True, ttft_s=None)]
    report = make_report()
    cells = [report.cells[0].model_copy(update={"steps": steps})]
    found = build_step_tables(report.model_copy(update={"cells": cells}), "p99")
    assert found is not None
    assert (found.tables[0].rows[1].tail, found.tables[0].rows[1].bar) == (None, 0.0)
