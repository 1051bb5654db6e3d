"""Windows of telemetry: growth over resets, values that hold, quantiles of what was counted."""

import math

import pytest

from harness.metrics.window import quantile_of_buckets
from tests.telemetry_rows import rows, scrapes, telemetry


def test_a_counter_that_goes_back_is_counted_from_zero() -> None:
    """10, 14, then 3 after a restart: 4 and 3 are 7, over four seconds."""
    found = telemetry(scrapes(0, 1, 2, 3, 4), rows("x_total", [(0, 10), (1, 14), (3, 3)]))
    assert found.window((0, 4)).increase("x_total") == 7
    assert found.window((0, 4)).rate("x_total") == 7 / 4


def test_growth_is_shared_evenly_between_the_two_scrapes_around_an_edge() -> None:
    """A window that begins between two scrapes takes its part of what grew between them."""
    found = telemetry(scrapes(0, 1, 2, 3), rows("x_total", [(0, 0), (2, 8), (3, 10)]))
    assert found.window((1.25, 2.5)).increase("x_total") == pytest.approx(0.75 * 8 + 0.5 * 2)
    assert found.window((0, 1)).increase("x_total") == 0, "unchanged until the scrape at 2"


def test_a_series_that_its_source_did_not_have_before_began_at_zero() -> None:
    """The first request of a path counts; what was there at the first answer does not."""
    born = telemetry(scrapes(0, 1, 2), rows("x_total", [(1, 5)]), rows("y_total", [(0, 5)]))
    assert born.window().increase("x_total") == 5
    assert born.window().increase("y_total") == 0
    late = telemetry(scrapes(0, 1, 2, failed=(0,)), rows("x_total", [(1, 5)]))
    assert late.window().increase("x_total") == 0, "it may have held 5 while nobody answered"


def test_a_counter_is_not_counted_twice_where_its_source_was_away() -> None:
    """Five before the gap and six after it are one more, not six."""
    found = telemetry(
        scrapes(0, 1, 2, 3, failed=(1, 2)), rows("x_total", [(0, 5), (3, 6)]),
        rows("y_total", [(0, 5), (1, None), (3, 6)]),
    )  # fmt: skip
    assert found.window().increase("x_total") == 1
    assert found.window().increase("y_total") == 1


def test_a_gauge_holds_until_it_changes_and_not_while_its_source_is_away() -> None:
    """Values 2, 2, (away), 6: the mean of what was heard is 10/3."""
    found = telemetry(scrapes(0, 1, 2, 3, failed=(2,)), rows("g", [(0, 2), (3, 6)]))
    window = found.window()
    assert window.mean("g") == pytest.approx(10 / 3)
    assert window.maximum("g") == 6
    assert found.window((2, 2.5)).mean("g") is None


def test_absent_is_not_zero() -> None:
    """What has no series, no matching label, no value or no scrape in the window is None."""
    found = telemetry(scrapes(0, 1, 9), rows("g", [(0, 3), (1, None)], pool="a"))
    window = found.window((0, 9))
    for name, labels in (("h", {}), ("g", {"pool": "b"})):
        assert window.mean(name, **labels) is None
        assert window.rate(name, **labels) is None
        assert window.quantile(name, 0.5, **labels) is None
    assert found.window((2, 5)).mean("g") is None
    assert found.window((20, 25)).rate("g") is None
    assert window.mean("g", pool="a") == 3
    assert found.window((1, 9)).series("g") == []


def test_several_spans_are_asked_as_one() -> None:
    """A cell's two segments count together, and what lies between them does not."""
    found = telemetry(
        scrapes(*range(11)), rows("x_total", [(t, t * t) for t in range(11)]),
        rows("g", [(t, t) for t in range(11)]),
    )  # fmt: skip
    window = found.window((1, 2), (8, 9))
    assert window.rate("x_total") == ((4 - 1) + (81 - 64)) / 2
    assert window.mean("g") == (1 + 2 + 8 + 9) / 4
    assert (window.start_s, window.end_s) == (1, 9)
    twice = found.window((8, 9), (1, 2), (8, 8.5), (1, 2))
    assert twice.spans == window.spans, "what overlaps counts once"


def test_rates_of_several_series_add_up_and_labels_choose() -> None:
    """Two pools' counters are 3 a second together, 2 of them the second's."""
    found = telemetry(
        scrapes(0, 1, 2), rows("x_total", [(0, 0), (1, 1), (2, 2)], pool="a"),
        rows("x_total", [(0, 0), (1, 2), (2, 4)], pool="b"),
    )  # fmt: skip
    assert found.window().rate("x_total") == 3
    assert found.window().rate("x_total", pool="b") == 2
    assert found.window().series("x_total") == [{"pool": "a"}, {"pool": "b"}]


def test_the_quantile_is_of_what_was_counted_in_the_window() -> None:
    """Old counts do not matter, and bounds are numbers however they are written."""
    found = telemetry(
        scrapes(0, 1), rows("t_bucket", [(0, 100), (1, 100)], le="0.1"),
        rows("t_bucket", [(0, 100), (1, 104)], le="0.2"),
        rows("t_bucket", [(0, 100), (1, 108)], le="4e-01"),
        rows("t_bucket", [(0, 100), (1, 108)], le="+Inf"),
    )  # fmt: skip
    window = found.window()
    assert window.quantile("t", 0.25) == pytest.approx(0.15)
    assert window.quantile("t", 0.75) == pytest.approx(0.3)
    assert found.window((1, 1)).quantile("t", 0.5) is None


def test_a_quantile_beyond_the_last_bound_is_at_least_that() -> None:
    """As Prometheus tells it; without counts, another bound or +Inf nothing is known."""
    assert quantile_of_buckets({1.0: 1, math.inf: 4}, 0.99) == 1.0
    assert quantile_of_buckets({math.inf: 4}, 0.99) is None
    assert quantile_of_buckets({1.0: 1, math.inf: 4}, 0.25) == 1.0
    assert quantile_of_buckets({1.0: 0, math.inf: 0}, 0.5) is None
    assert quantile_of_buckets({1.0: 4}, 0.5) is None


def test_the_largest_of_several_series_at_each_scrape() -> None:
    """A gauge over time takes the worst of its series at each moment."""
    found = telemetry(scrapes(0, 1), rows("g", [(0, 1), (1, 9)], i="0"), rows("g", [(0, 4)], i="1"))
    times, values = found.window().points("g")
    assert (list(times), list(values)) == ([0, 1], [4, 9])


def test_each_source_is_held_at_its_own_scrapes() -> None:
    """A source that is asked less often has fewer values, not stale ones."""
    found = telemetry(
        scrapes(0, 1, 2), scrapes(0, 2, source="b"), rows("g", [(0, 1)]),
        rows("g", [(0, 5), (2, 7)], source="b"),
    )  # fmt: skip
    assert sorted(found.window().values("g")) == [1, 1, 1, 5, 7]
    assert found.sources == ["a", "b"]
    assert found.of_source("b").window().mean("g") == 6
    assert found.up("b") == [(0.0, True), (2.0, True)]


def test_what_was_said_until_a_time() -> None:
    """Later rows are not there; before everything there is nothing."""
    found = telemetry(scrapes(0, 1, 2), rows("x_total", [(0, 0), (2, 4)]))
    early = found.before(2)
    assert early is not None
    assert early.window().increase("x_total") == 0
    assert found.before(0) is None
