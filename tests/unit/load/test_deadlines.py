"""When an exchange has taken too long."""

import pytest

from harness.load.client.deadlines import Deadlines, Timeouts
from harness.records.request import Outcome

S = 1_000_000_000
LIMITS = Timeouts(connect_s=2, idle_s=5, total_s=20)


def make(*, may_ask: bool = False, connecting: bool = False, active_s: float = 0) -> Deadlines:
    deadlines = Deadlines(LIMITS, 0, may_ask=may_ask)
    deadlines.is_connecting = connecting
    deadlines.active_ns = int(active_s * S)
    return deadlines


@pytest.mark.parametrize(
    ("connecting", "active_s", "now_s", "outcome"),
    [
        (True, 0, 1.9, None),
        (True, 0, 2.0, Outcome.CONNECT_ERROR),
        (False, 0, 4.9, None),
        (False, 0, 5.0, Outcome.IDLE_TIMEOUT),
        (False, 4, 8.9, None),
        (False, 4, 9.0, Outcome.IDLE_TIMEOUT),
        (False, 19.9, 20.0, Outcome.TOTAL_TIMEOUT),
        (True, 0, 20.0, Outcome.CONNECT_ERROR),
    ],
)
def test_each_limit_has_its_outcome(
    *, connecting: bool, active_s: float, now_s: float, outcome: Outcome | None
) -> None:
    """Connecting, silence and the whole are limited apart; activity moves the silence only."""
    expired = make(connecting=connecting, active_s=active_s).expired(int(now_s * S))
    assert (expired[0] if expired else None) is outcome


@pytest.mark.parametrize(
    ("may_ask", "connecting", "now_s", "wait_s"),
    [
        (False, False, 0, 5.0),
        (False, False, 4, 1.0),
        (False, True, 0, 2.0),
        (True, False, 0, 1.0),
        (True, True, 0, 2.0),
        (False, False, 99, 0.001),
    ],
)
def test_the_next_check_is_the_nearest_limit(
    *, may_ask: bool, connecting: bool, now_s: float, wait_s: float
) -> None:
    """Never zero: a timer of zero would spin."""
    deadlines = make(may_ask=may_ask, connecting=connecting)
    assert deadlines.next_check_s(int(now_s * S)) == pytest.approx(wait_s)


def test_a_silent_answer_is_asked_once_per_silence() -> None:
    """After a second without a byte, not again until another byte came and silence returned."""
    deadlines = make(may_ask=True)
    assert not deadlines.asks_now(S - 1)
    assert deadlines.asks_now(S)
    assert not deadlines.asks_now(2 * S)
    assert deadlines.next_check_s(2 * S) == pytest.approx(3.0)
    deadlines.active_ns = 3 * S
    assert deadlines.asks_now(4 * S)


def test_an_answer_that_cannot_be_asked_is_not() -> None:
    """Without an end test silence only ends in a timeout."""
    assert not make().asks_now(4 * S)
