from typing import Any

from harness.report.comparison import build_baseline, build_comparison
from harness.report.html import render_html
from harness.report.schema import BaselineComparison, ComparedMetric, Comparison
from harness.report.summary import MAX_LINES, render_summary
from tests.unit.report.make_report import (
    make_hard_report,
    make_jump,
    make_report,
    make_validity,
)


def test_the_analysed_quantile_comes_first() -> None:
    """Whatever the order of the data, the first table is of the quantile that was asked for."""
    report = make_report()
    assert report.comparison is not None
    turned = report.comparison.model_copy(update={"metrics": report.comparison.metrics[::-1]})
    found = build_comparison(make_report(comparison=turned))
    assert found is not None
    assert found.groups[0].title == "TTFT P99"
    assert len(found.groups) == 8


def test_whiskers_share_one_scale() -> None:
    """In a group the dot of a smaller ratio lies further left, and 1 lies where it is marked."""
    found = build_comparison(make_report())
    assert found is not None
    group = found.groups[0]
    dots = [row.whisker.dot for row in group.rows if row.whisker]
    ratios = [float(row.ratio) for row in group.rows if row.ratio]
    order = sorted(range(len(dots)), key=lambda i: ratios[i])
    assert [dots[i] for i in order] == sorted(dots)
    assert all(0 <= row.whisker.left <= row.whisker.dot for row in group.rows if row.whisker)
    equal = next(i for i, ratio in enumerate(ratios) if ratio == 1.0)
    assert abs(dots[equal] - group.middle) < 0.5


def test_an_open_side_is_open() -> None:
    """A missing bound runs to the end of the strip and says so."""
    found = build_comparison(make_hard_report())
    assert found is not None
    whisker = found.groups[0].rows[0].whisker
    assert whisker is not None
    assert whisker.is_open_right
    assert whisker.right == 100.0
    assert found.groups[0].rows[0].interval == "(0.40\u2013?)"


def test_no_ratio_no_whisker() -> None:
    """Where a ratio is undefined nothing is drawn."""
    found = build_comparison(make_hard_report())
    assert found is not None
    assert found.groups[0].rows[1].whisker is None
    assert found.groups[0].rows[1].ratio is None


def test_both_values_stand_beside_their_ratio() -> None:
    """The baseline's and the cell's own quantile with interval, in one unit."""
    found = build_comparison(make_report())
    assert found is not None
    assert found.has_sides
    assert found.groups[0].rows[4].sides == (
        "129 ms (121\u2013140)",
        "58.0 ms (54.5\u201362.9)",
    )
    metrics = [ComparedMetric(metric="ttft_s", q=0.75, cell="c09", ratio=0.5, low=None, high=None,
                              verdict="undecided")]  # fmt: skip
    other = Comparison(reference="baseline", candidate="accelerated", metrics=metrics)
    rare = build_comparison(make_report(comparison=other))
    assert rare is not None
    assert rare.groups[0].rows[0].sides is None


def test_groups_say_what_they_hold() -> None:
    """A closed group says how its cells came out."""
    found = build_comparison(make_report())
    assert found is not None
    assert found.groups[0].said == "faster in 3, undecided in 4 of 7 cells"


def test_nothing_compared() -> None:
    """Without a comparison there is no table."""
    assert build_comparison(make_report(comparison=None)) is None


def make_baseline(**changes: Any) -> BaselineComparison:
    """This run against an earlier one: one cell slower, one undecided, one without a ratio."""
    rows = [
        ("c00", 2.1, 1.7, 2.6, "regression"),
        ("c01", 1.05, 0.9, None, "undecided"),
        ("c02", None, None, None, "undecided"),
        ("c03", 0.99, 0.93, 1.06, "pass"),
        ("c04", 0.5, 0.45, 0.56, "improvement"),
    ]
    parts: dict[str, Any] = {
        "reference": "<b>earlier</b>",
        "candidate": "now",
        "limit": 0.1,
        "confidence": 0.95,
        "verdict": "regression",
        "detectable_effect": None,
        "metrics": [
            ComparedMetric(metric="ttft_s", q=0.99, cell=c, ratio=r, low=lo, high=hi, verdict=v)
            for c, r, lo, hi, v in rows
        ],
        "unmatched": ["c09: not in the baseline"],
        "caveats": ["torch version: <i>1</i> in the baseline, 2 here"],
    }
    return BaselineComparison(**{**parts, **changes})


def test_the_earlier_run_has_a_table_of_its_own() -> None:
    """Every factor is shown, the path too, with the verdict's word and how much more time."""
    assert build_baseline(make_report()) is None
    found = build_baseline(make_report(baseline=make_baseline()))
    assert found is not None
    assert found.factors == ("prompt_tokens", "accelerated")
    (group,) = found.groups
    assert group.title == "TTFT P99"
    assert group.said == "regression in 1, improvement in 1, pass in 1, undecided in 2 of 5 cells"
    said = [row.words for row in group.rows]
    assert said == [
        "regression: 110 % more time",
        "undecided",
        "undecided",
        "pass",
        "improvement: 50 % less time",
    ]


def test_the_page_shows_it_before_the_paths_and_escapes_it() -> None:
    """Sentence, table, caveats and cells without a counterpart; names are no markup."""
    page = render_html(make_report(baseline=make_baseline()))
    assert page.index('id="baseline"') < page.index('id="comparison"')
    assert '<a href="#baseline">Earlier run</a>' in page
    assert "TTFT P99 is slower than in run &lt;b&gt;earlier&lt;/b&gt; by more than 10" in page
    assert "a regression is one wholly above 1.10" in page
    assert "c09: not in the baseline" in page
    assert "<i>1</i>" not in page
    assert 'id="baseline"' not in render_html(make_report())


def test_the_summary_counts_it_in_one_line() -> None:
    """Counts and the highest ratio; at most forty lines even then."""
    many = [make_jump(at={"accelerated": False, "cot_depth": i}) for i in range(80)]
    validity = make_validity(caveats=["a doubt"] * 90)
    report = make_report(
        baseline=make_baseline(reference="earlier"), breakpoints=many, validity=validity
    )
    text = render_summary(report)
    assert len(text.splitlines()) <= MAX_LINES
    assert (
        "**Against run `earlier`.** regression in 1, improvement in 1, pass in 1, undecided in 2 "
        "of 5 cells; highest ratio 2.1x, 1.7 to 2.6 in c00."
    ) in text
