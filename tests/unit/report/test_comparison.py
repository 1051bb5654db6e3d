from harness.report.comparison import build_comparison
from tests.unit.report.make_report import make_hard_report, make_report


def test_the_analysed_quantile_comes_first() -> None:
    """Whatever the order of the data, the first table is of the quantile that was asked for."""
    report = make_report()
    assert report.comparison is not None
    turned = report.comparison.model_copy(update={"metrics": report.comparison.metrics[::-1]})
    found = build_comparison(make_report(comparison=turned))
    assert found is not None
    assert found.groups[0].title == "TTFT P99"
    assert len(found.groups) == 6


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


def test_groups_say_what_they_hold() -> None:
    """A closed group says how its cells came out."""
    found = build_comparison(make_report())
    assert found is not None
    assert found.groups[0].said == "faster in 3, undecided in 4 of 7 cells"


def test_nothing_compared() -> None:
    """Without a comparison there is no table."""
    assert build_comparison(make_report(comparison=None)) is None
