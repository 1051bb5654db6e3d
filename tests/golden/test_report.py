"""The report of the quickstart, held to the letter; pictures have structural tests of their own."""

import re
from pathlib import Path

from harness.report.html import render_html
from harness.report.summary import render_summary
from tests.golden_file import require_golden
from tests.unit.report.make_report import make_hard_report, make_report

HERE = Path(__file__).parent


def _without_pictures(html: str) -> str:
    """The page with each picture as its title and description: matplotlib's strokes may change."""
    return re.sub(
        r'<svg class="chart (\w+)".*?(<title .*?</title>)(<desc .*?</desc>).*?</svg>',
        r"<svg \1>\2\3</svg>",
        html,
        flags=re.DOTALL,
    )


def test_report_html() -> None:
    """The quickstart's page is the committed one."""
    require_golden(HERE / "report.html", _without_pictures(render_html(make_report())))


def test_hard_report_html() -> None:
    """The page of a report with everything missing or doubtful is the committed one."""
    require_golden(HERE / "report_hard.html", _without_pictures(render_html(make_hard_report())))


def test_summary_md() -> None:
    """The quickstart's summary is the committed one."""
    require_golden(HERE / "report_summary.md", render_summary(make_report()))
