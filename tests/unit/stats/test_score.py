import pytest

from harness.stats.bed.score import share, wilson


@pytest.mark.parametrize(
    ("hits", "n", "low", "high"),
    [(0, 20, 0.0, 0.161), (10, 20, 0.299, 0.701), (20, 20, 0.839, 1.0)],
)
def test_wilson(hits: int, n: int, low: float, high: float) -> None:
    """Intervals are those of Wilson's formula (textbook values)."""
    assert wilson(hits, n) == pytest.approx((low, high), abs=2e-3)


def test_share() -> None:
    """A share is printed in percent with its interval, and nothing out of nothing as a dash."""
    assert share(10, 20) == "50 [30, 70]"
    assert share(0, 0) == "-"
