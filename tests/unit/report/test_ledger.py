"""The ledger on the page, in `summary.md` and on the terminal; the picture of the ratios."""

import re
from pathlib import Path

import numpy as np
import pytest

from harness.cli.verdict import show_verdict
from harness.report.html import render_html
from harness.report.ledger import build_ledger
from harness.report.ratio_forest import describe, draw_forest
from harness.report.ratio_rows import MAX_ROWS, build_forest
from harness.report.schema import Report
from harness.report.summary import MAX_LINES, render_summary
from harness.report.svg import drawing, inline
from tests.unit.report.make_report import (
    make_cell,
    make_comparison,
    make_grid_report,
    make_hard_report,
    make_jump,
    make_ledger_report,
    make_paths_report,
    make_report,
    make_validity,
)
from tests.unit.report.pages import html_of


def with_rows(n: int) -> Report:
    """A ledger of that many rows, at a place each."""
    report = make_ledger_report()
    assert report.comparison is not None
    first = report.comparison.ledger[0]
    rows = [first.model_copy(update={"at": {"concurrency": i}}) for i in range(n)]
    return make_ledger_report(comparison=report.comparison.model_copy(update={"ledger": rows}))


def test_rows_are_named_by_what_ran_and_what_it_is_over() -> None:
    """A set by its features; what it adds to a smaller one stands below it."""
    ledger = build_ledger(make_ledger_report())
    assert ledger is not None
    assert ledger.metrics == ("E2E", "TTFT", "TPOT")
    assert [entry.label for entry in ledger.entries] == [
        "paged_kv",
        "paged_kv + prefix_cache",
        "over paged_kv",
        "adaptive_batching",
        "async_store",
        "gc_tuned",
        "accelerated",
        "over paged_kv + prefix_cache",
    ]
    first = ledger.entries[0]
    assert [line.quantile for line in first.lines] == ["P99", "P50"]
    assert first.lines[0].figures[1] is not None
    assert first.lines[0].figures[1].marked == "0.71 (0.66\u20130.76) \u25bc"


def test_one_path_has_no_ledger() -> None:
    """Nothing is printed, drawn or written of a ledger where one path is compared."""
    assert build_ledger(make_report()) is None
    assert build_ledger(make_report(comparison=None)) is None
    assert 'id="ledger"' not in html_of("quickstart")


def test_the_page_has_the_ledger_with_marks_and_words() -> None:
    """Every ratio with its interval; colour is never alone: a mark to see, a word to hear."""
    page = html_of("ledger")
    table = page[page.index('id="ledger"') :].partition("</table>")[0]
    figures = re.findall(r'<td class="number (\w+)">(.*?)</td>', table)
    assert len(figures) == 8 * 2 * 3
    assert all(f'<span class="unseen">{verdict}</span>' in text for verdict, text in figures)
    assert '<a href="#cell-c02"><bdi>over paged_kv</bdi></a>' in table
    assert "What each set of features changes" in page


def test_the_summary_has_the_ledger_and_stays_short() -> None:
    """A row for each set in the asked quantile; forty lines however many there are."""
    said = render_summary(make_ledger_report())
    assert "| Over the baseline | E2E P99 | TTFT P99 | TPOT P99 |" in said
    assert "| paged_kv + prefix_cache over paged_kv | 0.83" in said
    jumps = [make_jump(at={"accelerated": False, "cot_depth": i}) for i in range(80)]
    many = with_rows(40).model_copy(
        update={"breakpoints": jumps, "validity": make_validity(caveats=["a doubt"] * 90)}
    )
    text = render_summary(many)
    assert len(text.splitlines()) <= MAX_LINES
    assert "And 30 more in report.html." in text


def test_the_terminal_shows_it_in_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Set, quantile and three ratios with intervals on one line, and what the marks mean."""
    monkeypatch.setenv("COLUMNS", "80")
    show_verdict(make_ledger_report(), Path("report.html"))
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    (first,) = [line for line in lines if re.match("paged_kv +P99", line)]
    assert re.search(r"P99 +0\.75 \(0\.70\u20130\.80\) \u25bc +0\.71 .*\u25bc +0\.90 ", first)
    assert "\u25bc faster, \u25b2 slower, = same, ? undecided" in shown
    show_verdict(make_report(), Path("report.html"))
    assert "ledger" not in capsys.readouterr().out


def test_many_rows_are_counted() -> None:
    """The page shows forty rows, the picture two dozen; what is left out is said."""
    page = render_html(with_rows(50))
    assert "10 more rows are in the JSON download." in page
    forest = build_forest(with_rows(50))
    assert forest is not None
    assert len(forest.rows) == MAX_ROWS


def test_the_picture_groups_rows_by_the_factors_before_the_last() -> None:
    """Penalty as a heading, batch as the row; one factor alone needs no heading."""
    forest = build_forest(make_paths_report())
    assert forest is not None
    assert [(g.heading, [row.label for row in g.rows]) for g in forest.groups] == [
        ("frequency_penalty 0", ["concurrency 2", "concurrency 8"]),
        ("frequency_penalty 0.5", ["concurrency 2", "concurrency 8"]),
    ]
    one = build_forest(make_report())
    assert one is not None
    assert [group.heading for group in one.groups] == [""]
    grid = build_forest(make_grid_report())
    assert grid is not None
    assert grid.groups[0].heading == "prompt_tokens 64, cot_depth 0"


@pytest.mark.parametrize("width", [1040.0, 352.0])
@pytest.mark.parametrize(
    "report", [make_ledger_report(), make_paths_report(), make_hard_report(), make_report()]
)
def test_the_picture_has_a_dot_for_every_ratio(report: Report, width: float) -> None:
    """Wide or narrow, each ratio of the drawn metrics and quantiles is one dot."""
    forest = build_forest(report)
    assert forest is not None
    n_ratios = sum(
        item.ratio is not None
        for row in forest.rows
        for item in row.items
        if item.metric in forest.metrics and item.q in forest.quantiles
    )
    with drawing():
        figure = draw_forest(forest, width)
        n_dots = sum(line.get_marker() == "o" for axes in figure.axes for line in axes.lines)
        svg = inline(figure, name="x", title="x", description=describe(forest), css_class="any")
    assert n_dots == n_ratios > 0
    assert len(figure.axes) == len(forest.metrics)
    assert all(row.label in svg for row in forest.rows)


def test_a_bound_that_is_open_or_far_is_faint() -> None:
    """No end is drawn where nothing is known: the whisker fades to the edge."""
    forest = build_forest(make_hard_report())
    assert forest is not None
    with drawing():
        axes = draw_forest(forest, 1040.0).axes[0]
    faint = [line for line in axes.lines if line.get_alpha() == 0.3]
    assert len(faint) == 1
    assert np.asarray(faint[0].get_xdata())[1] == pytest.approx(axes.get_xlim()[1])


def test_the_picture_says_itself_in_words() -> None:
    """Readers who do not see it get every row of the asked quantile."""
    forest = build_forest(make_paths_report())
    assert forest is not None
    assert describe(forest).startswith(
        "frequency_penalty 0, concurrency 2: TTFT P99 0.60 (0.56\u20130.64), faster; "
    )


def test_a_cell_of_the_path_alone_keeps_its_name() -> None:
    """A grid of nothing but the two paths: the row is called after its cell."""
    cells = [make_cell(f"c0{i}", {"accelerated": bool(i)}, 0.1 - i / 50) for i in range(2)]
    forest = build_forest(make_report(cells=cells, comparison=make_comparison(cells)))
    assert forest is not None
    assert [row.label for row in forest.rows] == ["c01"]


def test_phases_are_named_by_the_sets_in_their_order() -> None:
    """Along the paths a bar is called after its features, the baseline first, in one figure."""
    page = html_of("ledger")
    picture = page[page.index('id="phases-0"') :].partition("</figure>")[0]
    names = re.findall(r">(baseline|accelerated|[a-z_]+_[a-z_]+(?: \+ [a-z_]+)*)</text>", picture)
    assert names[:7] == [
        "baseline",
        "paged_kv",
        "paged_kv + prefix_cache",
        "adaptive_batching",
        "async_store",
        "gc_tuned",
        "accelerated",
    ]
