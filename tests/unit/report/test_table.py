import csv
import io
import json
import re

import pytest

from harness.report import words
from harness.report.cells_csv import to_csv
from harness.report.schema import Estimate
from harness.report.table import build_table, open_bound_reason, quantile_key
from tests.unit.report.make_report import (
    make_grid_report,
    make_hard_report,
    make_report,
    make_surface_report,
)
from tests.unit.report.pages import html_of


def _rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_holds_every_number_of_every_cell() -> None:
    """Each value, bound, factor and phase of the cells is in the CSV as the very number."""
    report = make_hard_report()
    rows = _rows(to_csv(report))
    assert [row["cell"] for row in rows] == [cell.id for cell in report.cells]
    for row, cell in zip(rows, report.cells, strict=True):
        assert int(row["prompt_tokens"]) == cell.factors["prompt_tokens"]
        assert row["accelerated"] == str(cell.factors["accelerated"]).lower()
        for metric in words.METRIC_NAMES:
            for quantile, estimate in cell.metrics.get(metric, {}).items():
                for suffix, value in (
                    ("", estimate.value), ("_low", estimate.low), ("_high", estimate.high),
                ):  # fmt: skip
                    text = row[f"{metric}_{quantile}{suffix}"]
                    assert (float(text) if text else None) == value
        for phase, seconds in cell.phases_tail_s.items():
            assert float(row[f"phase_tail_{phase}_s"]) == seconds


def test_csv_in_the_page_is_the_csv() -> None:
    """What the button saves is the table of these cells."""
    found = re.search(r'id="table-csv">(.*?)</script>', html_of("hard"), re.DOTALL)
    assert found is not None
    assert json.loads(found.group(1)) == to_csv(make_hard_report())


def test_columns_match_entries() -> None:
    """Every row has one entry for each heading after its name."""
    table = build_table(make_grid_report())
    assert {len(row.entries) for row in table.rows} == {len(table.columns) - 1}


def test_factors_that_never_change_are_said_once() -> None:
    """A constant factor is no column but a sentence."""
    cells = [
        cell.model_copy(update={"factors": {**cell.factors, "top_k": 40}})
        for cell in make_report().cells
    ]
    table = build_table(make_report(cells=cells))
    assert table.constants == "top_k 40"
    assert "top_k" not in {column.title for column in table.columns}


def test_values_sort_as_numbers() -> None:
    """The sort key of a number is the number itself, and an undefined one has none."""
    table = build_table(make_hard_report())
    titles = [column.title for column in table.columns]
    entries = [row.entries[titles.index("TTFT P99") - 1] for row in table.rows]
    assert float(entries[8].sort) == 0.129
    assert entries[2].sort == ""
    assert entries[13].sort == "0.118"


@pytest.mark.parametrize(
    ("low", "high", "n", "n_effective", "q", "note"),
    [
        (0.1, None, 128, 120.0, 0.99, "needs 265 more"),
        (0.1, None, 120, 120.0, 0.99, "needs 248 more"),
        (0.1, None, 512, 264.54, 0.99, "needs 202 more"),
        (0.1, None, 120, None, 0.99, "needs 248 more"),
        (0.1, 0.2, 120, 120.0, 0.99, ""),
        (0.1, None, 512, 448.0, 0.99, ""),
        (None, None, 3, 3.0, 0.5, "needs 3 more"),
        (0.1, None, 0, 0.0, 0.99, ""),
        (0.1, None, 10, 10.0, 1.0, ""),
    ],
)
def test_how_many_more(
    low: float | None, high: float | None, n: int, n_effective: float | None, q: float, note: str
) -> None:
    """368 independent requests close the interval of P99; the rest is counted in raw ones."""
    cell = make_report().cells[0].model_copy(update={"n": n, "n_effective": n_effective})
    estimate = Estimate(value=0.15, low=low, high=high)
    assert open_bound_reason(estimate, q, 0.95, cell) == note


def test_quantile_key() -> None:
    """A quantile that is not stored is shown by the nearest that is."""
    assert [quantile_key(q) for q in (0.5, 0.9, 0.95, 0.99, 0.999)] == [
        "p50", "p90", "p99", "p99", "p99",
    ]  # fmt: skip


def test_a_cell_says_how_far_it_came() -> None:
    """State with its sign, width reached, and what is missing; what is unknown is no zero."""
    table = build_table(make_surface_report())
    place = [column.title for column in table.columns[1:]].index("State")
    by_state = {row.entries[place].sort: row.entries[place] for row in table.rows}
    assert by_state["converged"].text == "\u2713 converged"
    assert by_state["wide"].notes[:2] == ("\u00b1 11 %, 3 starts", "about 1,400 requests more")
    assert by_state["saturated"].notes[0] == "a bound is open, 3 starts"
    assert not any("more" in note for note in by_state["saturated"].notes)
