"""Sleeping until a point in time."""

import time

import gevent
import pytest

from harness.load.alarm import Alarm

MS = 1_000_000


def test_sleepers_wake_in_order_and_not_before_their_time() -> None:
    """Three greenlets, three times, one timer."""
    alarm, woken = Alarm(), []
    start = time.monotonic_ns()

    def sleeper(ms: int) -> None:
        assert alarm.sleep_until(start + ms * MS)
        woken.append((ms, time.monotonic_ns() - start >= ms * MS))

    gevent.joinall([gevent.spawn(sleeper, ms) for ms in (30, 10, 20)], raise_error=True)
    alarm.close()
    assert woken == [(10, True), (20, True), (30, True)]


def test_the_past_is_no_sleep() -> None:
    """A time gone by returns at once."""
    alarm = Alarm()
    assert alarm.sleep_until(time.monotonic_ns() - 1)
    alarm.close()


def test_wake_all_ends_every_sleep_early() -> None:
    """Sleepers learn that it was not their time."""
    alarm = Alarm()
    far = time.monotonic_ns() + 3600 * 1000 * MS
    sleepers = [gevent.spawn(alarm.sleep_until, far) for _ in range(3)]
    gevent.sleep(0.01)
    alarm.wake_all()
    gevent.joinall(sleepers, timeout=30)
    alarm.close()
    assert [sleeper.value for sleeper in sleepers] == [False, False, False]


def test_a_killed_sleeper_does_not_disturb_the_others() -> None:
    """Its alarm rings unheard."""
    alarm = Alarm()
    start = time.monotonic_ns()
    victim = gevent.spawn(alarm.sleep_until, start + 20 * MS)
    other = gevent.spawn(alarm.sleep_until, start + 40 * MS)
    gevent.sleep(0.01)
    victim.kill()
    other.join(timeout=30)
    alarm.close()
    assert other.value is True


def test_the_median_oversleep_is_below_the_loops_own_millisecond() -> None:
    """Timer descriptors beat the millisecond to which the loop's timers round up."""
    alarm = Alarm()
    if not alarm.is_exact:
        pytest.skip("no timer descriptors on this system")
    late = []
    for i in range(60):
        due = time.monotonic_ns() + 2 * MS + i * 10_000
        alarm.sleep_until(due)
        late.append(time.monotonic_ns() - due)
    alarm.close()
    assert sorted(late)[15] < MS  # the lower quartile: a busy machine delays any sleeper


def test_the_loops_timers_serve_where_there_are_no_descriptors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The fallback wakes at or after its time as well."""
    monkeypatch.setattr("harness.load.alarm._timer_descriptor", lambda _libc: None)
    alarm = Alarm()
    start = time.monotonic_ns()
    sleepers = [gevent.spawn(alarm.sleep_until, start + ms * MS) for ms in (20, 10)]
    gevent.joinall(sleepers, timeout=30)
    alarm.close()
    assert not alarm.is_exact
    assert all(sleeper.value for sleeper in sleepers)
    assert time.monotonic_ns() - start >= 20 * MS
