"""Each planted symptom is named by its own rule; healthy runs and missing figures are silent."""

from typing import Any

import pytest

from harness.findings.diagnosis import diagnose
from harness.findings.symptoms import RULES, Context, garbage, gc_pauses, more_load
from harness.metrics.window import Telemetry
from harness.records.telemetry import Reading, to_readings
from tests.make_telemetry import Life, make_rows, make_telemetry, windows

PLANTED: dict[str, dict[str, Any]] = {
    "more_load": {"rate": 14.0},
    "host_starved": {"busy": 0.97, "involuntary": 400.0},
    "gpu_throttled": {"throttled": 1.0},
    "pool_dead": {"pool_up": 0.0},
    "garbage": {"objects": 9000.0},
    "memory_growth": {"heap_growth": 2e6},
    "gc_pauses": {"collections": 0.42, "gc_pause_s": 0.187},
    "store_slow": {"store_s": 0.05},
    "store_exhausted": {"store_taken": 32.0, "store_waiting": 9.0},
    "prefix_cache_lost": {"hits": 0.1},
    "kv_pressure": {"evicted": 0.2, "kv_wait_s": 0.05},
    "loop_blocked": {"loop_lag_s": 0.2},
    "slow_phase": {"attention_s": 0.1},
    "queueing": {"waiting": 20.0},
    "errors_5xx": {"errors": 0.05},
    "client_late": {"lag_s": 0.03},
}


def context(telemetry: Telemetry) -> Context:
    normal, fault = windows(telemetry)
    return Context(normal=normal, fault=fault)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_symptom_is_the_first_cause(name: str) -> None:
    """What was planted alone is found, and is what everything else found follows from."""
    found = diagnose(context(make_telemetry(3, **PLANTED[name])))
    assert found.first_cause is not None
    assert found.first_cause.name == name
    assert found.first_cause.strength >= 1
    assert found.first_cause.evidence


@pytest.mark.parametrize("seed", range(5))
def test_a_healthy_run_shows_nothing(seed: int) -> None:
    """No rule fires without a fault, with a normal window beside it or without one."""
    telemetry = make_telemetry(seed)
    assert diagnose(context(telemetry)).symptoms == ()
    assert diagnose(Context(fault=telemetry.window())).symptoms == ()


def test_what_was_so_before_is_no_symptom_of_the_fault() -> None:
    """Pauses, pressure and errors that the normal window has as well are not named."""
    sick = Life(collections=0.42, gc_pause_s=0.187, errors=0.05, evicted=0.2, waiting=20.0)
    assert diagnose(context(make_telemetry(1, life=sick))).symptoms == ()


def test_every_rule_is_silent_where_nothing_was_scraped() -> None:
    """Absent is not zero: no telemetry, and telemetry of nothing known, give no symptom."""
    up = [Reading(second * 10**9, "x", "up", (), 1.0, "gauge") for second in range(60)]
    empty = Telemetry(to_readings(up))
    for given in (Context(), Context(fault=empty.window(), normal=empty.window((0, 20)))):
        assert [rule(given) for rule in RULES] == [None] * len(RULES)


def test_a_server_that_warms_up_is_no_leak() -> None:
    """Memory that doubles in the first half of the time and then stays is silent."""
    grown = make_telemetry(
        1, fault_at=10, heap_growth=6e6, later={50: {"heap": 540e6, "heap_growth": 0.0}}
    )
    assert diagnose(Context(fault=grown.window())).symptoms == ()
    leaking = make_telemetry(1, seconds=240, fault_at=10, heap_growth=3e6)
    assert [each.name for each in diagnose(Context(fault=leaking.window())).symptoms] == [
        "memory_growth"
    ]


def test_a_fresh_server_s_growth_is_no_leak_in_a_minute_or_as_before() -> None:
    """A minute of growth alone is not told from a warm-up, and steady growth is not the fault's."""
    fresh = make_telemetry(1, seconds=64, fault_at=1, heap_growth=3e6)
    assert diagnose(Context(fault=fresh.window())).symptoms == ()
    steady = make_telemetry(1, seconds=240, fault_at=1, heap_growth=3e6)
    start, end = steady.span
    middle = (start + end) / 2
    halves = Context(normal=steady.window((start, middle)), fault=steady.window((middle, end)))
    assert diagnose(halves).symptoms == ()


def test_the_figures_are_those_that_were_planted() -> None:
    """25 pauses a minute of 187 ms are 7.9 % of the time, against 8 of 4 ms in the normal one."""
    planted: dict[str, Any] = {"collections": 25 / 60, "gc_pause_s": 0.187}
    (found,) = diagnose(context(make_telemetry(5, seconds=660, fault_at=60, **planted))).symptoms
    share, often, _ = found.evidence
    assert share.value == pytest.approx(25 / 60 * 0.187, rel=0.15)
    assert often.value == pytest.approx(25, rel=0.15)
    assert share.normal == pytest.approx(0.2 * 0.004, rel=0.7)


def test_the_earliest_symptom_comes_first() -> None:
    """Garbage from the 60th second, errors from the 90th: their onsets are in that order."""
    errors = {"errors": 0.2, "store_taken": 32.0, "store_waiting": 5.0}
    telemetry = make_telemetry(
        2, objects=9000.0, collections=1.0, gc_pause_s=0.1, later={90: errors}
    )
    start = telemetry.span[0]
    found = diagnose(context(telemetry))
    names = [each.name for each in found.symptoms]
    assert found.first_cause is not None
    assert found.first_cause.name == "garbage"
    assert set(names) == {"garbage", "gc_pauses", "store_exhausted", "errors_5xx"}
    assert set(names[:2]) == {"garbage", "gc_pauses"}
    assert set(found.follows["errors_5xx"]) == {"garbage", "gc_pauses", "store_exhausted"}
    onset = {each.name: each.window[0] - start for each in found.symptoms if each.window}
    assert onset["garbage"] < 66
    assert 84 <= onset["errors_5xx"] <= 96


def test_objects_that_few_searches_counted_are_no_rate() -> None:
    """The counter moves at searches only: two or three of them in a minute tell no rate."""
    often, seldom = (make_telemetry(2, objects=9000.0, collections=n) for n in (1.0, 0.04))
    assert garbage.check(context(often)) is not None
    assert garbage.check(context(seldom)) is None


@pytest.mark.parametrize("seed", [5, 11, 17])
def test_a_few_requests_more_are_no_other_load(seed: int) -> None:
    """A minute holds 15 at a request in four seconds, or by chance, as with these seeds, over 20.

    Three times as many in ten minutes are one.
    """
    few = make_telemetry(seed, life=Life(rate=0.25))
    assert more_load.check(context(few)) is None
    many = make_telemetry(seed, seconds=1200, fault_at=600, life=Life(rate=0.25), rate=0.75)
    normal, fault = windows(many, 600)
    assert more_load.check(Context(normal=normal, fault=fault)) is not None


def test_the_pauses_of_two_servers_are_no_pauses_of_one() -> None:
    """Each collects 2 % of its time: 4 % together are beyond the limit of 3 %, but nobody's."""
    rows = make_rows(1, life=Life(collections=0.5, gc_pause_s=0.04))
    both = Telemetry(to_readings([*rows, *(row._replace(source="other") for row in rows)]))
    assert gc_pauses.check(Context(fault=both.window())) is None
    one = make_telemetry(1, life=Life(collections=1.0, gc_pause_s=0.04))
    assert gc_pauses.check(Context(fault=one.window())) is not None
