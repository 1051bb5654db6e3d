"""Each kind of report as a page, rendered once for all tests that only read it."""

from collections.abc import Callable
from functools import lru_cache

from harness.report.html import render_html
from harness.report.schema import Report, Verdict
from tests.unit.report.make_report import (
    make_cell,
    make_grid_report,
    make_hard_report,
    make_jump,
    make_ledger_report,
    make_paths_report,
    make_report,
    make_surface_report,
)


def one_path_report() -> Report:
    """A grid without an accelerated path."""
    cells = [
        cell.model_copy(update={"factors": {"prompt_tokens": cell.factors["prompt_tokens"]}})
        for cell in make_report().cells[::2]
    ]
    return make_report(cells=cells, breakpoints=[make_jump(at={})], comparison=None)


def one_cell_report() -> Report:
    """A grid of one cell."""
    return make_report(cells=make_report().cells[:1], breakpoints=[], comparison=None)


def failed_report() -> Report:
    """Nothing completed anywhere."""
    cells = [
        cell.model_copy(
            update={
                "state": "failed",
                "n": 0,
                "n_effective": None,
                "metrics": {},
                "outcomes": {"connect_error": 512},
                "phases_tail_s": {},
                "completed_rps": None,
            }
        )
        for cell in make_report().cells
    ]
    verdict = Verdict(status="invalid", text="No request completed: this run is no evidence.")
    return make_report(cells=cells, breakpoints=[], comparison=None, verdict=verdict)


def empty_report() -> Report:
    """A report without any cell."""
    return make_report(cells=[], breakpoints=[], comparison=None, caveats=[])


def text_axis_report() -> Report:
    """An axis of names."""
    cells = [
        make_cell(f"c{i}", {"prompt_tokens": name, "accelerated": i % 2 == 1}, 0.05 + i / 100)
        for i, name in enumerate(("short", "short", "long", "long"))
    ]
    return make_report(cells=cells, breakpoints=[], comparison=None)


def path_axis_report() -> Report:
    """The path itself along the axis."""
    report = make_report(cells=make_report().cells[:2], breakpoints=[], comparison=None)
    analysis = report.analysis.model_copy(update={"axis": "accelerated"})
    return report.model_copy(update={"analysis": analysis})


REPORTS: dict[str, Callable[[], Report]] = {
    "quickstart": make_report,
    "grid": make_grid_report,
    "hard": make_hard_report,
    "one path": one_path_report,
    "one cell": one_cell_report,
    "failed": failed_report,
    "empty": empty_report,
    "text axis": text_axis_report,
    "path axis": path_axis_report,
    "ledger": make_ledger_report,
    "paths": make_paths_report,
    "surface": make_surface_report,
}


@lru_cache(maxsize=len(REPORTS))
def html_of(name: str) -> str:
    """The page of one kind of report."""
    return render_html(REPORTS[name]())
