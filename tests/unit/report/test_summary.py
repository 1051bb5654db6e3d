import pytest

from harness.report.schema import Reproduce
from harness.report.summary import MAX_LINES, render_summary
from tests.unit.report.make_report import (
    make_grid_report,
    make_jump,
    make_report,
    make_surface_report,
    make_validity,
)
from tests.unit.report.pages import REPORTS


@pytest.mark.parametrize("name", list(REPORTS))
def test_at_most_forty_lines(name: str) -> None:
    """Every kind of report has a summary of at most forty lines."""
    assert len(render_summary(REPORTS[name]()).splitlines()) <= MAX_LINES


def test_many_of_everything_still_fits() -> None:
    """Many breakpoints and caveats are counted, not listed."""
    report = make_report(
        breakpoints=[make_jump(at={"accelerated": False, "cot_depth": i}) for i in range(80)],
        validity=make_validity(caveats=["a doubt"] * 90),
        caveats=[f"doubt {i}" for i in range(90)],
    )
    text = render_summary(report)
    assert len(text.splitlines()) <= MAX_LINES
    assert "And 72 more in report.html." in text
    assert "90 caveats in report.html" in text


def test_breaks_come_before_curves_without() -> None:
    """What was found stands first in the table, with kind, place and size."""
    report = make_report(breakpoints=make_report().breakpoints[::-1])
    rows = [row for row in render_summary(report).splitlines() if row.startswith("| TTFT P99")]
    assert rows[0].startswith(
        "| TTFT P99, baseline | jump between 224 and 256 prompt tokens | +148 % (+120 to +171 %) |"
    )


def test_quiet_curves_are_counted() -> None:
    """A grid with many curves without a break has no row for each of them."""
    report = make_grid_report()
    quiet = sum(b.kind == "none" for b in report.breakpoints)
    text = render_summary(report)
    assert f"No break on {quiet} of {len(report.breakpoints)} curves." in text
    assert "| none" not in text


def test_a_curve_that_could_not_show_a_break_is_not_called_smooth() -> None:
    """Without a detectable effect the summary says that nothing can be told."""
    blind = make_jump(kind="none", effect=None, detectable_effect=None)
    text = render_summary(make_report(breakpoints=[blind]))
    assert "On 1 of 1 curve a break cannot be told from a smooth curve." in text
    some = render_summary(make_report(breakpoints=[blind, make_jump(kind="none", effect=None)]))
    assert "No break on 2 of 2 curves; on 1 of them one cannot be told" in some


def test_it_says_how_to_get_it_again() -> None:
    """Command, seed and machine, hostile text harmless."""
    environment = {"cpu": "A | B <c>", "cores": "2", "os": "Linux 6"}
    again = Reproduce(command="tailbreak run `x`", seed=7, environment=environment)
    last = render_summary(make_report(reproduce=again, caveats=[])).splitlines()
    (line,) = [line for line in last if line.startswith("**Again.**")]
    assert "`tailbreak run 'x'` (seed 7)" in line
    assert r"A \| B \<c\>, 2 cores, Linux 6" in line


def test_no_row_is_wide() -> None:
    """A comment box shows a table row of a plain run without scrolling far."""
    rows = [row for row in render_summary(make_report()).splitlines() if row.startswith("|")]
    assert max(map(len, rows)) <= 130


def test_worst_cells_are_in_order() -> None:
    """The five worst cells stand in order of the analysed quantile."""
    text = render_summary(make_report())
    worst = [row for row in text.splitlines() if row.startswith("| prompt_tokens")]
    assert [row.split("|")[2].split()[0] for row in worst] == ["176", "151", "129", "90.0", "66.0"]


def test_doubts_are_named() -> None:
    """A validity figure past its limit is in the summary."""
    text = render_summary(make_report(validity=make_validity(client_cpu_share=0.97)))
    assert "Doubts: Client CPU: 97 %." in text


def test_a_surface_is_named_by_its_law() -> None:
    """The row of a surface says its level with the interval, and the size says its rounds."""
    text = render_summary(make_surface_report())
    assert "surface beyond prompt tokens \u00d7 requests in flight = 2540 (2410 to 2660)" in text
    assert "3 rounds" in text
    assert "\u25c7 interval still wide" in text
