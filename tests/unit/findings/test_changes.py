"""What changed is ranked by normal noise; chance finds little; what is gone is not zero."""

import math

import numpy as np
import pytest

from harness.findings.changes import Change, find_changes
from harness.metrics.catalogue import server
from harness.metrics.window import Telemetry
from harness.records.telemetry import Reading, to_readings
from harness.stats.shift import held_in_check, shift
from tests.make_telemetry import make_telemetry, windows

S = 10**9


def changed(telemetry: Telemetry) -> dict[tuple[str, str], Change]:
    found = find_changes(*windows(telemetry)).changed
    return {(each.name, each.what): each for each in found}


def gauge(name: str, values: list[float | None], start: int = 0) -> list[Reading]:
    return [
        Reading((start + n) * S, "a", name, (), value, "gauge") for n, value in enumerate(values)
    ]


def test_a_planted_rate_is_found_with_its_figures() -> None:
    """8 requests a second become 16: the rate doubles, and it is far beyond its noise."""
    found = changed(make_telemetry(4, seconds=240, fault_at=60, rate=16.0))
    rate = found[server.REQUESTS.name, "rate"]
    assert rate.normal == pytest.approx(8, rel=0.2)
    assert rate.fault == pytest.approx(16, rel=0.1)
    assert rate.effect is not None
    assert rate.effect > 3


def test_a_planted_tail_is_found_in_its_phase_and_little_else() -> None:
    """A slower store raises its own quantiles and the whole's; of all finds 5 % may be chance."""
    by_seed = [find_changes(*windows(make_telemetry(seed, store_s=0.3))) for seed in range(5)]
    true = {(server.INFER_DURATION.name, None), (server.PHASE_DURATION.name, "store")}
    n_false = 0
    for found in by_seed:
        told = [(each.name, dict(each.labels).get("phase")) for each in found.changed]
        assert true <= set(told)
        n_false += sum(each not in true for each in told)
    assert n_false <= 3, "of some twenty finds: a chance below 2 % where 5 % are false"


def test_in_healthy_runs_nothing_stands() -> None:
    """Some fifty tests a run are held in check together: at most one of five runs has a find."""
    assert sum(bool(changed(make_telemetry(seed))) for seed in range(5)) <= 1


def test_what_is_in_one_time_only_is_told_apart() -> None:
    """A gauge that ends with the normal time is absent in the fault: no zero, no effect."""
    up = gauge("up", [1.0] * 80)
    frame = to_readings([*up, *gauge("x", [5.0] * 40 + [None]), *gauge("y", [2.0] * 40, 40)])
    telemetry = Telemetry(frame)
    found = find_changes(telemetry.window((0, 39.5)), telemetry.window((40.5, 79)))
    told = {each.name: each for each in found.ranked if each.is_one_sided}
    assert set(told) == {"x", "y"}
    assert (told["x"].normal, told["x"].fault, told["x"].effect) == (5.0, None, None)
    assert (told["y"].normal, told["y"].fault) == (None, 2.0)


def test_what_moves_within_its_noise_has_not_changed() -> None:
    """Every reading of `x` grows by its last bit, of `y` by a third: surely unlike, both."""
    x: list[float | None] = [*[0.38] * 40, *[0.38 * (1 + 1e-15)] * 40]
    y: list[float | None] = [*[6.0] * 40, *[8.0] * 40]
    rows = gauge("x", x) + gauge("y", y) + gauge("up", [1.0] * 80)
    telemetry = Telemetry(to_readings(rows))
    found = find_changes(telemetry.window((0, 39.5)), telemetry.window((40.5, 79)))
    assert [each.name for each in found.changed] == ["y"]


def test_noise_that_lasts_is_no_change() -> None:
    """Of 200 gauges that wander (each slice 0.6 of the last), few have changed; untold by a test
    that takes slices as independent, some 25 had.
    """  # noqa: D205  one sentence
    rng = np.random.default_rng(1)
    steps = 0.8 * rng.standard_normal((200, 36))
    for at in range(1, 36):
        steps[:, at] += 0.6 * steps[:, at - 1]
    tests = [shift(10 + each[:24], 10 + each[24:]) for each in steps]
    assert sum(held_in_check([each.p for each in tests if each is not None])) <= 6


def test_a_tail_beyond_the_last_bucket_is_the_last_bound_and_not_absent() -> None:
    """From 50 ms to beyond the last bound of 1 s: P99 stands at that bound, as in Prometheus."""
    rows = gauge("up", [1.0] * 80)
    counts = {"0.1": 0, "1.0": 0, "+Inf": 0}
    for second in range(80):
        for le in counts if second < 40 else ("+Inf",):
            counts[le] += 10
        rows += [
            Reading(second * S, "a", "t_bucket", (("le", le),), n, "histogram")
            for le, n in counts.items()
        ]
    telemetry = Telemetry(to_readings(rows))
    found = find_changes(telemetry.window((0, 39.5)), telemetry.window((40.5, 79)))
    (tail,) = (each for each in found.ranked if each.what == "p99")
    assert tail.normal == pytest.approx(0.099)
    assert tail.fault == 1.0
    assert tail.has_changed


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("go_gc_duration_seconds_count", "summary"),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "unknown"),
    ],
)
def test_a_total_that_is_not_called_one_is_told_by_its_rate(name: str, kind: str) -> None:
    """As a level it would have risen from window to window, whatever happens."""
    rows = [
        Reading(second * S, "a", each, (), value, of)
        for second in range(80)
        for each, value, of in (("up", 1.0, "gauge"), (name, 3.0 * second, kind))
    ]
    telemetry = Telemetry(to_readings(rows))
    found = find_changes(telemetry.window((0, 39.5)), telemetry.window((40.5, 79)))
    (told,) = (each for each in found.ranked if each.name == name)
    assert told.normal == pytest.approx(3)
    assert (told.what, told.has_changed) == ("rate", False)


def test_windows_too_short_for_four_slices_say_nothing() -> None:
    """With a scrape a second, three seconds hold one slice: no test is made."""
    telemetry = make_telemetry(1, seconds=60, fault_at=30, rate=50.0)
    start = telemetry.span[0]
    found = find_changes(
        telemetry.window((start, start + 3)), telemetry.window((start + 40, start + 43))
    )
    assert found.n_compared == 0
    assert not found.changed


def test_an_effect_is_counted_in_normal_noise_and_never_in_zeros() -> None:
    """From 10 +- 1 to 15 is five; from a level that never moved it is at most 50."""
    moved = shift([9.0, 11.0, 9.0, 11.0, 9.0, 11.0], [15.0] * 6)
    assert moved is not None
    assert moved.effect == pytest.approx(5 / math.sqrt(6 / 5))
    steady = shift([0.0] * 6, [3.0] * 6)
    assert steady is not None
    assert steady.effect == pytest.approx(50)
    nothing = shift([0.0] * 6, [0.0] * 6)
    assert nothing is not None
    assert (nothing.effect, nothing.p) == (0.0, 1.0)


def test_three_values_a_side_are_no_test() -> None:
    """Below four values nothing is said, and NaN is no value."""
    assert shift([1.0, 2.0, 3.0, math.nan], [9.0] * 8) is None


def test_many_tests_are_held_in_check() -> None:
    """Benjamini-Hochberg by hand: of 0.01, 0.02, 0.03 and 0.5 the first three stand at 5 %."""
    assert held_in_check([0.5, 0.01, 0.03, 0.02]) == [False, True, True, True]
    assert held_in_check([0.04, 0.04, 0.5, 0.6]) == [False] * 4
    assert held_in_check([]) == []
