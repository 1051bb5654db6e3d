from harness.server.engine_process import state, warm_up
from tests.unit.server import build


def test_warming_up_leaves_nothing_behind() -> None:
    """After the warm-up no block is held or kept, nothing is counted, and both paths have run."""
    subject = build.engine()
    unmeasured = subject.scheduler.costs.estimate()
    warm_up(subject, 100)
    assert set(state(subject).values()) == {0}
    assert subject.n_tokens_generated == 0
    assert subject.scheduler.costs.estimate() != unmeasured
    assert subject.scheduler.check_integrity() == []
