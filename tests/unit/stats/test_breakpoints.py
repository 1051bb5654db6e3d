import math
import time

import numpy as np
import pytest
from scipy.stats import binom

from harness.stats.bed.breaks import false_alarms
from harness.stats.breakpoints import BreakKind, Breakpoint, find_breakpoint
from harness.stats.caveat import CaveatKind

Array = np.typing.NDArray[np.float64]
DEMO = [64.0, 128, 192, 224, 256, 320, 368]


def search(x: object, y: object, se: object, **options: object) -> Breakpoint:
    """One search with a fixed seed."""
    rng = np.random.default_rng(13)
    return find_breakpoint(x, y, se, rng=rng, **{"n_bootstrap": 399, **options})  # type: ignore[arg-type]


def axis(n: int) -> Array:
    """N cells over seven octaves."""
    return np.geomspace(256, 32768, n)


def noisy(n: int, curve: Array, seed: int, noise: float = 0.02) -> Array:
    """The curve with noise of its log."""
    return np.asarray(curve + noise * np.random.default_rng(seed).standard_normal(n))


@pytest.mark.parametrize("se", [0.03, 0.045, 0.06])
def test_clear_jump_on_seven_cells(se: float) -> None:
    """A step from 51 to 129 ms between 224 and 256 is a jump in that gap, of 100 to 150 %."""
    ms = np.array([20.0, 36, 49, 51, 129, 151, 176])
    found = search(DEMO, np.log(ms), np.full(7, se))
    assert found.kind is BreakKind.JUMP
    assert (found.low, found.high) == (224, 256)
    assert found.location == pytest.approx(math.sqrt(224 * 256))
    assert found.effect is not None
    assert 1.0 <= found.effect <= 1.5
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert 0.5 < found.effect_low < found.effect < found.effect_high < 2.5
    assert found.width_octaves == pytest.approx(math.log2(256 / 224))
    assert (found.below, found.above) == (3, 4)
    assert found.p_value is not None
    assert found.p_value < 0.01


@pytest.mark.parametrize("se", [0.03, 0.045, 0.06])
@pytest.mark.parametrize("last", [(), (153.0,)])
def test_steady_rise_is_no_jump(se: float, last: tuple[float, ...]) -> None:
    """A curve that bends up near its end is never called a jump."""
    ms = np.array([20.0, 35, 47, 50, 58, 66, 90, *last])
    x = [*DEMO, 448.0][: ms.size]
    found = search(x, np.log(ms), np.full(ms.size, se))
    assert found.kind in {BreakKind.NONE, BreakKind.GRADUAL, BreakKind.KINK}


@pytest.mark.parametrize("n", [9, 10, 12])
@pytest.mark.parametrize("gap", [3, 5])
def test_jump_is_placed(n: int, gap: int) -> None:
    """A jump of 50 % at 2 % noise is found in its gap, on grids of 9 to 12 cells."""
    x = axis(n)
    y = noisy(n, np.log(20 + 0.03 * x) + math.log(1.5) * (np.arange(n) > gap), seed=gap)
    found = search(x, y, np.full(n, 0.02))
    assert found.kind is BreakKind.JUMP
    assert found.low is not None
    assert found.high is not None
    assert found.low <= math.sqrt(x[gap] * x[gap + 1]) <= found.high
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert found.effect_low <= 0.5 <= found.effect_high


def test_two_jumps() -> None:
    """Two jumps are both found, the stronger one first."""
    x = axis(12)
    steps = 0.9 * (np.arange(12) > 3) + 0.6 * (np.arange(12) > 7)
    found = search(x, noisy(12, 0.3 * np.log(x) + steps, 14, 0.03), np.full(12, 0.03))
    assert found.kind is BreakKind.JUMP
    assert found.below == 3
    assert [(b.kind, b.below) for b in found.others] == [(BreakKind.JUMP, 7)]


def test_kink() -> None:
    """A bend of 1.5 log units per octave is a kink, its change of slope within the interval."""
    x = axis(16)
    y = noisy(16, 0.1 * np.log(x) + 1.5 * np.maximum(np.log2(x / x[8]), 0), 15)
    found = search(x, y, np.full(16, 0.02))
    assert found.kind is BreakKind.KINK
    assert found.low is not None
    assert found.high is not None
    assert found.low <= x[8] <= found.high
    assert found.effect_low is not None
    assert found.effect_high is not None
    assert found.effect_low <= 1.5 <= found.effect_high


@pytest.mark.parametrize("at", [200.0, 165.0])
def test_a_kink_between_cells_is_found_at_small_errors(at: float) -> None:
    """Half-octave cells, 0.4 % errors: the place off cells and middles is no reason for "none"."""
    x = np.array([16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448.0])
    se = np.full(x.size, 0.004)
    for replicate in range(4):
        rng = np.random.default_rng([replicate, int(at)])
        y = np.log(0.03 + 4e-6 * x) + 0.6 * np.maximum(0, np.log2(x / at))
        found = find_breakpoint(x, y + se * rng.standard_normal(x.size), se, rng=rng)
        assert found.kind is BreakKind.KINK
        assert found.location == pytest.approx(at, rel=0.12)
        assert found.low is not None
        assert found.high is not None
        assert found.low <= at <= found.high


def test_staircase_is_no_cliff() -> None:
    """Three like steps are a staircase in 3 of 10 cases or more, and one lone jump in none."""
    x = axis(16)
    i = np.arange(16)
    y = 0.3 * np.log(x) + 0.3 * ((i > 3).astype(float) + (i > 7) + (i > 11))
    found = [
        search(x, noisy(16, y, s, 0.01), np.full(16, 0.01), n_bootstrap=199) for s in range(10)
    ]
    stairs = [f for f in found if f.kind is BreakKind.STAIRCASE]
    assert len(stairs) >= 3
    assert not any(f.kind is BreakKind.JUMP and not f.others for f in found)
    for stair in stairs:
        assert len(stair.others) >= 1
        assert stair.low is not None
        assert stair.high is not None
        assert stair.low < stair.high


def test_soft_step_is_gradual() -> None:
    """A rise spread over an octave is gradual, with the octaves it takes."""
    x = axis(16)
    y = 0.3 * np.log(x) + 1.2 / (1 + np.exp(-(np.log2(x / 256) - 3.5) / 0.25))
    found = search(x, noisy(16, y, 17), np.full(16, 0.02))
    assert found.kind is BreakKind.GRADUAL
    assert found.width_octaves is not None
    assert 0.4 <= found.width_octaves <= 2.5
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 256 * 2**3.5 <= found.high


@pytest.mark.parametrize(("at", "kind"), [(6, CaveatKind.LONE_CELL), (11, CaveatKind.AT_EDGE)])
def test_lone_cell_is_no_break(at: int, kind: CaveatKind) -> None:
    """One cell off the curve is set aside and named: it is no break."""
    x = axis(12)
    y = noisy(12, 0.3 * np.log(x) + 0.5 * (np.arange(12) == at), 18)
    found = search(x, y, np.full(12, 0.02))
    assert found.kind is BreakKind.NONE
    assert kind in {c.kind for c in found.caveats}


def test_too_small_errors_are_widened() -> None:
    """Scatter of three times the stated errors is told and no break is claimed from it."""
    x = axis(12)
    y = noisy(12, np.log(20 + 0.03 * x), 19, 0.09)
    found = search(x, y, np.full(12, 0.03))
    assert found.kind is BreakKind.NONE
    assert CaveatKind.OVERDISPERSED in {c.kind for c in found.caveats}


def test_open_and_endless_cells() -> None:
    """Open cells take part, endless ones are left out; both are named."""
    x = axis(10)
    y = np.append(np.log(x[:9]), np.inf)
    found = search(x, y, np.full(10, 0.05), open_upper=np.arange(10) == 8)
    assert {CaveatKind.CENSORED, CaveatKind.OPEN_BOUND} <= {c.kind for c in found.caveats}
    assert found.kind is BreakKind.NONE


def test_order_of_cells_does_not_matter() -> None:
    """Shuffled cells give the same answer, its indices those of the caller."""
    ms = np.array([20.0, 36, 49, 51, 129, 151, 176])
    mixed = np.array([4, 1, 6, 0, 3, 5, 2])
    plain = search(DEMO, np.log(ms), np.full(7, 0.04))
    found = search(np.array(DEMO)[mixed], np.log(ms)[mixed], np.full(7, 0.04))
    assert found.location == plain.location
    assert (found.effect_low, found.effect_high) == (plain.effect_low, plain.effect_high)
    assert found.below is not None
    assert found.above is not None
    assert (mixed[found.below], mixed[found.above]) == (3, 4)


def test_same_seed_same_answer() -> None:
    """The answer depends on the generator's state only."""
    y = noisy(9, np.log(axis(9)), 20, 0.05)
    assert search(axis(9), y, np.full(9, 0.05)) == search(axis(9), y, np.full(9, 0.05))


@pytest.mark.parametrize("factor", [1e-3, 7.0])
def test_units_do_not_matter(factor: float) -> None:
    """Other units of the quantile or of the axis change neither kind nor relative effect."""
    ms = np.array([20.0, 36, 49, 51, 129, 151, 176])
    plain = search(DEMO, np.log(ms), np.full(7, 0.04))
    found = search(factor * np.array(DEMO), np.log(factor * ms), np.full(7, 0.04))
    assert found.kind is plain.kind
    assert found.effect == pytest.approx(plain.effect, rel=0.02)
    assert found.location == pytest.approx(factor * (plain.location or 0))


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_cells(n: int) -> None:
    """Fewer than five cells give no break, no detectable effect and say why."""
    found = search(axis(9)[:n], np.zeros(n), np.full(n, 0.05))
    assert found.kind is BreakKind.NONE
    assert found.detectable_effect is None
    assert [c.kind for c in found.caveats] == [CaveatKind.SMALL_GRID]


def test_flat_curve_says_what_would_have_been_seen() -> None:
    """Equal quantiles are no break; the jump that would have been seen shrinks with the errors."""
    sizes = [
        search(axis(12), np.zeros(12), np.full(12, se)).detectable_effect
        for se in (0.01, 0.03, 0.1)
    ]
    assert sizes[0] is not None
    assert sizes[1] is not None
    assert sizes[2] is not None
    assert 0.1 <= sizes[0] < sizes[1] < sizes[2]


def test_detectable_jump_is_detected() -> None:
    """A jump of the size said to be detectable is found in at least 11 of 14 cases."""
    x = axis(12)
    y = 0.4 * np.log(x)
    size = search(x, noisy(12, y, 21, 0.03), np.full(12, 0.03)).detectable_effect
    assert size is not None
    hits = 0
    for i in range(14):
        step = math.log1p(size) * (np.arange(12) > 2 + i % 7)
        found = search(x, noisy(12, y + step, 100 + i, 0.03), np.full(12, 0.03), n_bootstrap=199)
        hits += found.kind not in {BreakKind.NONE, BreakKind.GRADUAL}
    assert hits >= 11


@pytest.mark.parametrize(
    ("x", "y", "se", "match"),
    [
        ([1, 2], [0, 0, 0], [1, 1], "shapes"),
        ([1, 2, math.nan], [0] * 3, [1] * 3, "NaN"),
        ([1, 2, 3], [0, math.nan, 0], [1] * 3, "NaN"),
        ([-1, 2, 3], [0] * 3, [1] * 3, "above 0"),
        ([0, 2, 3], [0] * 3, [1] * 3, "above 0"),
        ([2, 2, 2], [0] * 3, [1] * 3, "2 twice"),
        ([1, 2, 3], [0] * 3, [1, 0, 1], "se: got 0"),
        ([1, 2, 3], [0, -math.inf, 0], [1] * 3, "-inf"),
    ],
)
def test_refusals(x: list[float], y: list[float], se: list[float], match: str) -> None:
    """Wrong input is refused with what came and what is allowed."""
    with pytest.raises(ValueError, match=match):
        search(x, y, se)


@pytest.mark.parametrize("n", [7, 12])
def test_speed(n: int) -> None:
    """A search costs less than 100 least-squares fits of 999 draws for each cell (best of 3)."""
    searches, floors = [], []
    draws, basis = np.random.default_rng(0).normal(size=(n, 999)), np.vander(axis(n), 5)
    for seed in range(3):
        y = noisy(n, np.log(20 + 0.03 * axis(n)), seed, 0.05)
        start = time.process_time()
        find_breakpoint(axis(n), y, np.full(n, 0.05), rng=np.random.default_rng(seed))
        searches.append(time.process_time() - start)
        start = time.process_time()
        for _ in range(n):
            np.linalg.lstsq(basis, draws)
        floors.append(time.process_time() - start)
    assert min(searches) < 100 * min(floors)


@pytest.mark.parametrize("law", ["quadratic", "logarithm", "roofline"])
def test_smooth_laws_raise_no_alarm(law: str) -> None:
    """Over 40 searches of a smooth law false alarms are compatible with 8 % (alpha 1e-3)."""
    assert false_alarms(law, 9, 0.05, 40) <= binom.isf(1e-3, 40, 0.08)
