import pytest

from harness.report.summary import MAX_LINES, render_summary
from tests.unit.report.make_report import make_jump, make_report, make_validity
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
    assert "and 70 more in report.html" in text
    assert "90 caveats in report.html" in text


def test_breaks_come_before_curves_without() -> None:
    """What was found stands first in the table."""
    report = make_report(breakpoints=make_report().breakpoints[::-1])
    rows = [row for row in render_summary(report).splitlines() if "TTFT P99 |" in row]
    assert rows[0].startswith("| baseline, TTFT P99 | between 224 and 256 prompt tokens | jump |")


def test_worst_cells_are_in_order() -> None:
    """The five worst cells stand in order of the analysed quantile."""
    text = render_summary(make_report())
    worst = [row for row in text.splitlines() if row.startswith("| prompt_tokens")]
    assert [row.split("|")[2].split()[0] for row in worst] == ["176", "151", "129", "90.0", "66.0"]


def test_doubts_are_named() -> None:
    """A validity figure past its limit is in the summary."""
    text = render_summary(make_report(validity=make_validity(client_cpu_share=0.97)))
    assert "Doubts: Client CPU: 97 %." in text
