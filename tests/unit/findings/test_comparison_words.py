from typing import Any

import pytest

from harness.findings.comparison_words import comparison_sentences
from harness.findings.finding import (
    Cell,
    CellState,
    ComparedMetric,
    ComparedWord,
    Comparison,
    Factor,
    LedgerRow,
)
from harness.scenario.schema import Analysis

OVER_LENGTH = Analysis()
OVER_PATHS = Analysis(axis="accelerated")
LEDGER = [LedgerRow(features="a", over=False, at={}, cell="c01", reference="c00", metrics=[])]


def row(cell: str, word: ComparedWord, ratio: float, **changes: Any) -> ComparedMetric:
    """A ratio with an interval of ten per cent either way."""
    values = {"metric": "ttft_s", "q": 0.99, "low": 0.9 * ratio, "high": 1.1 * ratio}
    return ComparedMetric(cell=cell, ratio=ratio, verdict=word, **{**values, **changes})


def cell(number: int, factors: dict[str, Factor], state: CellState = "fixed") -> Cell:
    """A cell of which only its place and state matter."""
    known: dict[str, Any] = {"id": f"c{number:02d}", "factors": factors, "state": state}
    return Cell.model_construct(**known)


def compared(*rows: ComparedMetric, **changes: Any) -> Comparison:
    """These rows beside the baseline."""
    values = {"reference": "baseline", "candidate": "accelerated", "metrics": list(rows)}
    return Comparison(**{**values, **changes})


def said(comparison: Comparison, cells: list[Cell], asked: Analysis = OVER_LENGTH) -> str:
    return " ".join(comparison_sentences(comparison, cells, asked))


def test_a_path_that_is_only_slower_is_not_called_fast() -> None:
    """No "faster in 0 of 2 cells": what changed is said, and nothing else."""
    found = compared(row("c00", "slower", 1.5), row("c01", "same", 1.0))
    assert said(found, []) == "The accelerated path is slower in 1 of 2 cells."
    assert said(compared(row("c00", "same", 1.0)), []) == (
        "The accelerated path changes no cell beyond its interval."
    )


@pytest.mark.parametrize("side", [False, True])
def test_void_cells_are_not_compared_in_words(*, side: bool) -> None:
    """Where either side is void nothing is said of the pair, least of all that it is faster."""

    def cells(state: CellState) -> list[Cell]:
        return [
            cell(
                int(path),
                {"prompt_tokens": 64, "accelerated": path},
                state if path is side else "fixed",
            )
            for path in (False, True)
        ]

    found = compared(row("c01", "faster", 0.5))
    assert said(found, cells("invalid-client")) == said(found, cells("failed")) == ""
    assert said(found, cells("fixed")) == (
        "The accelerated path is faster in 1 of 1 cell, most at 64 prompt tokens "
        "(2.00x, 1.82 to 2.22)."
    )


def test_sets_of_features_are_counted_and_the_best_one_is_named() -> None:
    """Which set, how much, and how the others came out; a void set leaves the others in."""
    asked: list[bool | str] = [False, "a", "a,b", True, "c"]
    cells = [cell(i, {"accelerated": value}) for i, value in enumerate(asked)]
    cells[4] = cell(4, {"accelerated": "c"}, "failed")
    rows = [row("c01", "faster", 0.8), row("c02", "faster", 0.5), row("c03", "slower", 1.3)]
    found = compared(*rows, row("c04", "faster", 0.1), ledger=LEDGER)
    assert said(found, cells, OVER_PATHS) == (
        "TTFT P99 beside the baseline: faster in 2 of 3 cells, most with a + b "
        "(2.00x, 1.82 to 2.22); slower in 1."
    )


def test_every_latency_is_told_of_where_paths_are_what_is_asked() -> None:
    """TTFT, TPOT and E2E each have their sentence, with the place of the largest gain."""
    places: list[dict[str, Factor]] = [
        {"frequency_penalty": 0.5, "concurrency": 8, "accelerated": path} for path in (False, True)
    ]
    cells = [cell(i, factors) for i, factors in enumerate(places)]
    found = compared(row("c01", "undecided", 0.99), row("c01", "faster", 0.5, metric="tpot_s"))
    assert said(found, cells, OVER_PATHS) == (
        "TTFT P99 beside the baseline: undecided in 1 of 1 cell. "
        "TPOT P99 beside the baseline: faster in 1 of 1 cell, most at frequency_penalty 0.5, "
        "8 requests in flight (2.00x, 1.82 to 2.22)."
    )
