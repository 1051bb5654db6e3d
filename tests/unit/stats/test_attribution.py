import numpy as np
import pytest

from harness.stats.attribution import Attribution, attribute_break, rank_components, tail_size
from harness.stats.caveat import CaveatKind
from tests.oracles import stats_oracle

Array = np.typing.NDArray[np.float64]
SCALES = (2.0, 5.0, 4.0, 1.0, 3.0)


def cell(n: int, rng: np.random.Generator, slow: int | None = None, by: float = 40) -> Array:
    """Component times of n requests, one component slower by about `by`."""
    parts = np.column_stack([rng.exponential(scale, n) for scale in SCALES])
    if slow is not None:
        parts[:, slow] += by * (1 + 0.2 * rng.standard_normal(n))
    return parts


def attribute(below: Array, above: Array, seed: int = 22) -> Attribution:
    """Attribution of the change between two cells."""
    rng = np.random.default_rng(seed)
    return attribute_break(below, below.sum(axis=1), above, above.sum(axis=1), 0.99, rng=rng)


@pytest.mark.parametrize("n", [5, 512, 5000])
def test_means_match_a_loop_and_add_up(n: int) -> None:
    """Tail means are those of the slowest requests picked one by one, and sum to the total."""
    parts = cell(n, np.random.default_rng(n))
    total = parts.sum(axis=1)
    found = rank_components(parts, total, 0.99, rng=np.random.default_rng(1))
    want = stats_oracle.tail_means(parts, total, tail_size(n, 0.99))
    np.testing.assert_allclose(found.mean, want)
    assert found.mean.sum() == pytest.approx(found.total)
    assert found.share.sum() == pytest.approx(1)
    assert list(found.share[found.order]) == sorted(found.share, reverse=True)


@pytest.mark.parametrize(
    ("n", "q", "size"), [(512, 0.99, 11), (100, 0.99, 10), (5, 0.99, 5), (5000, 0.95, 250)]
)
def test_tail_size(n: int, q: float, size: int) -> None:
    """The tail is (1 - q) n, at least 2 % and at least ten requests."""
    assert tail_size(n, q) == size


def test_culprit_is_found() -> None:
    """The component that slowed down is named in at least 45 of 50 cases and never another."""
    rng = np.random.default_rng(23)
    named = []
    for i in range(50):
        slow = i % 5
        found = attribute(cell(512, rng), cell(512, rng, slow), i)
        named.append((slow, found.culprit))
    assert sum(slow == culprit for slow, culprit in named) >= 45
    assert all(culprit in {slow, None} for slow, culprit in named)


def test_shared_blame_names_nobody() -> None:
    """Two components that slowed down alike are ranked first and neither is named."""
    rng = np.random.default_rng(24)
    above = cell(512, rng, 1, 20)
    above[:, 3] += 20
    found = rank = attribute(cell(512, rng), above)
    assert found.culprit is None
    assert set(rank.order[:2]) == {1, 3}


def test_no_rise_names_nobody() -> None:
    """Without a rise of the tail no component is named, and the caveat says so."""
    rng = np.random.default_rng(25)
    slow, fast = cell(512, rng, 2), cell(512, rng)
    for above in (fast, slow):
        found = attribute(slow, above)
        assert found.culprit is None
        assert CaveatKind.NO_CHANGE in {c.kind for c in found.caveats}


def two_slower(n: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Two cells; in the second, components 0 and 4 are slower."""
    below, above = cell(n, rng), cell(n, rng, 0, 30)
    above[:, 4] += 30
    return below, above


def test_share_interval_covers() -> None:
    """The interval of a share holds its value in a very large cell in 88 of 100 small ones."""
    truth = attribute(*two_slower(200_000, np.random.default_rng(29))).share[4]
    held = 0
    for i in range(100):
        found = attribute(*two_slower(1000, np.random.default_rng(200 + i)), i)
        held += found.low[4] <= truth <= found.high[4]
    assert held >= 88


def test_part_left_unexplained_is_told() -> None:
    """Components that leave a tenth of the total open say so."""
    parts = cell(512, np.random.default_rng(26))
    found = rank_components(parts, 1.1 * parts.sum(axis=1), 0.99, rng=np.random.default_rng(1))
    assert CaveatKind.UNEXPLAINED in {c.kind for c in found.caveats}


def test_small_cells_are_told() -> None:
    """A tail of ten out of forty requests is called hardly a tail."""
    parts = cell(40, np.random.default_rng(27))
    found = rank_components(parts, parts.sum(axis=1), 0.99, rng=np.random.default_rng(1))
    assert CaveatKind.TOO_FEW_SAMPLES in {c.kind for c in found.caveats}


@pytest.mark.parametrize(
    ("parts", "total", "match"),
    [
        ([[1.0], [2.0]], [1.0], "components"),
        ([1.0, 2.0], [1.0, 2.0], "components"),
        ([[np.nan]], [1.0], "finite"),
        ([[1.0]], [np.inf], "finite"),
        (np.empty((0, 2)), [], "at least one"),
    ],
)
def test_refusals(parts: object, total: object, match: str) -> None:
    """Shapes that do not fit and values that are not finite are refused."""
    rng = np.random.default_rng(1)
    with pytest.raises(ValueError, match=match):
        rank_components(parts, total, 0.99, rng=rng)  # type: ignore[arg-type]


def test_two_alike_are_not_one_culprit() -> None:
    """Both components rise alike and the rest falls: each has more than half, neither is named."""
    rng = np.random.default_rng(3)
    below = rng.lognormal(0, 0.1, (600, 3)) * [10.0, 10.0, 20.0]
    above = rng.lognormal(0, 0.1, (600, 3)) * [20.0, 20.0, 16.0]
    result = attribute_break(
        below, below.sum(axis=1), above, above.sum(axis=1), 0.99, rng=np.random.default_rng(4)
    )
    assert result.share[:2].min() > 0.5
    assert result.culprit is None
