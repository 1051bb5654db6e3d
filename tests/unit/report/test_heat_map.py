from harness.report.heat_map import build_heat_map
from tests.unit.report.make_report import (
    make_grid_report,
    make_jump,
    make_report,
    make_surface_report,
)


def test_one_axis_needs_no_map() -> None:
    """A grid of one numeric axis has no map."""
    assert build_heat_map(make_report(), "p99") is None


def test_panels_hold_every_cell_once() -> None:
    """Each cell of the grid stands in exactly one square."""
    report = make_grid_report()
    found = build_heat_map(report, "p99")
    assert found is not None
    squares = [c.cell.id for p in found.panels for r in p.rows for c in r.cells if c.cell]
    assert sorted(squares) == sorted(cell.id for cell in report.cells)
    assert (found.across, found.down) == ("prompt_tokens", "cot_depth")
    assert [panel.title for panel in found.panels][:2] == [
        "Baseline, frequency_penalty 0",
        "Accelerated, frequency_penalty 0",
    ]


def test_steps_follow_the_values() -> None:
    """A larger value never has a lighter step; the extremes have the first and the last."""
    found = build_heat_map(make_grid_report(), "p99")
    assert found is not None
    squares = [c for p in found.panels for r in p.rows for c in r.cells]
    known = sorted((float(c.text), c.step) for c in squares if c.text and c.step is not None)
    steps = [step for _, step in known]
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (0, 6)


def test_a_break_marks_the_edge_where_it_lies() -> None:
    """A break between 192 and 320 marks the left edge of 320, in its own row and panel only."""
    found = build_heat_map(make_grid_report(), "p99")
    assert found is not None
    marked = [
        (panel.title, row.label, column)
        for panel in found.panels
        for row in panel.rows
        for column, square in zip(panel.columns, row.cells, strict=True)
        if square.is_edge_left
    ]
    assert ("Baseline, frequency_penalty 0", "0", "320") in marked
    assert ("Baseline, frequency_penalty 0", "4", "192") in marked
    assert len(marked) == 6
    assert all(title.startswith("Baseline") for title, _, _ in marked)


def test_a_break_down_the_other_axis_marks_the_upper_edge() -> None:
    """A break along the second axis lies between two rows."""
    jump = make_jump(axis="cot_depth", low=2.0, high=4.0, location=3.0, at={"accelerated": False})
    found = build_heat_map(make_grid_report(breakpoints=[jump]), "p99")
    assert found is not None
    rows = [r.label for p in found.panels for r in p.rows for c in r.cells if c.is_edge_above]
    assert set(rows) == {"4"}
    assert not any(c.is_edge_left for p in found.panels for r in p.rows for c in r.cells)


def test_a_square_says_its_cell_value_and_interval() -> None:
    """The title of a square names the cell, the metric, the value with unit and bounds."""
    found = build_heat_map(make_grid_report(), "p99")
    assert found is not None
    square = found.panels[0].rows[0].cells[0]
    assert square.title == (
        "c00, prompt_tokens 64, cot_depth 0, frequency_penalty 0, baseline: "
        "TTFT P99 21.0 ms (19.7\u201322.7)"
    )


def test_only_cells_with_a_number_can_be_gone_back_to() -> None:
    """A cell without a value has an empty square: nothing links to it."""
    report = make_grid_report()
    cells = [report.cells[0].model_copy(update={"metrics": {}}), *report.cells[1:]]
    found = build_heat_map(report.model_copy(update={"cells": cells}), "p99")
    assert found is not None
    assert found.shown_cells == frozenset(cell.id for cell in cells[1:])


def test_squares_say_their_interval_and_state() -> None:
    """An open bound is a question mark or an at-least sign, and a state has its sign and word."""
    found = build_heat_map(make_surface_report(), "p99")
    assert found is not None
    squares = {c.cell.id: c for p in found.panels for r in p.rows for c in r.cells if c.cell}
    assert (squares["c13"].text, squares["c13"].interval) == ("\u2265 110", "")
    assert squares["c00"].interval.startswith("(")
    assert {c.mark for c in squares.values()} == {"\u2713", "\u25c7", "\u25b3", "\u25b2"}
    assert squares["c17"].title.endswith(", interval still wide")
