from collections.abc import Callable

import numpy as np
import pytest

from kernels.bench.battery import DAYS, TESTS, Draws, holm, streams
from kernels.bench.generators import GENERATORS, Generator

N = 1 << 17
SOUND = [each for each in GENERATORS if not each.is_weak]
(WEAK,) = [each for each in GENERATORS if each.is_weak]


def sound(seed: int, n: int = N) -> Draws:
    return np.random.default_rng(seed).integers(0, DAYS, n, dtype=np.uint32)


def biased_bits(draws: Draws) -> Draws:
    """Every hundredth draw has all upper bits set."""
    changed = draws.copy()
    changed[::100] |= 0xFFF00
    return changed


def repeated(draws: Draws) -> Draws:
    """Every draw of the second half has the upper bits of one in the first, 4 places on."""
    changed = draws.copy()
    changed[1::8] = (changed[1::8] & 0x7FFF) | (changed[::8] & 0xF8000)
    return changed


def even_blocks(draws: Draws) -> Draws:
    """Each draw is followed by its complement: ones and zeros even out too well."""
    changed = draws.copy()
    changed[1::2] = (DAYS - 1) - changed[::2]
    return changed


def paired_bits(draws: Draws) -> Draws:
    """Every second bit equals the one above it."""
    return draws & np.uint32(0xAAAAA) | (draws >> np.uint32(1)) & np.uint32(0x55555)


def third_depends(draws: Draws) -> Draws:
    """The upper 4 bits of every third draw are the sum of those of the two before it."""
    changed = draws[: len(draws) // 3 * 3].copy()
    upper = ((changed[::3] >> 16) + (changed[1::3] >> 16)) % 16
    changed[2::3] = (changed[2::3] & 0xFFFF) | (upper << 16).astype(np.uint32)
    return changed


def lattice(draws: Draws) -> Draws:
    """Every draw is a multiple of 16."""
    return draws & ~np.uint32(15)


def spaced(draws: Draws) -> Draws:
    """A low draw is followed by no other for 8 places."""
    changed = draws.copy()
    for place in np.flatnonzero(changed[:-8] < DAYS // 8):
        changed[place + 1 : place + 9] |= DAYS // 2
    return changed


def squeezed(draws: Draws) -> Draws:
    """Slightly too small."""
    return (draws * np.float64(0.98)).astype(np.uint32)


FLAWS: dict[str, Callable[[Draws], Draws]] = {
    "monobit": biased_bits,
    "block frequency": even_blocks,
    "runs": paired_bits,
    "serial pairs": repeated,
    "serial triples": third_depends,
    "low bits": lattice,
    "gaps": spaced,
    "birthday spacings": lattice,
    "uniformity": squeezed,
    "known mean": squeezed,
}


@pytest.mark.parametrize("name", TESTS)
def test_each_test_sees_the_flaw_that_it_is_for(name: str) -> None:
    """A planted flaw of its kind gives a p value below 1e-6, the same draws without it do not."""
    assert TESTS[name](FLAWS[name](sound(3))) < 1e-6
    assert TESTS[name](sound(3)) > 1e-3


@pytest.mark.parametrize("name", TESTS)
def test_p_values_of_sound_draws_are_uniform_enough(name: str) -> None:
    """Over 200 streams one in twenty p values is below 0.05: 2 to 22 at 0.9995."""
    below = sum(TESTS[name](sound(seed, 1 << 14)) < 0.05 for seed in range(200))
    assert 2 <= below <= 22


def test_streams_that_share_numbers_are_seen() -> None:
    """Two streams of which one in 20 places is the same are told from independent ones."""
    first, second = sound(1), sound(2)
    assert streams(first, second) > 1e-3
    second[::20] = first[::20]
    assert streams(first, second) < 1e-6


@pytest.mark.parametrize("generator", SOUND, ids=lambda each: each.name)
def test_sound_generators_pass(generator: Generator) -> None:
    """None of the eleven tests rejects at 0.001 after Holm, for one of two seeds at least."""
    assert any(min(holm(generator.judge(seed, N)).values()) > 0.001 for seed in (1, 5))


def test_the_weak_generator_fails() -> None:
    """A 24-bit congruential generator is rejected for its low bits, whatever the seed."""
    for seed in (1, 2, 77):
        failed = [name for name, p in holm(WEAK.judge(seed, N)).items() if p < 0.001]
        assert "low bits" in failed


def test_the_weak_generator_is_the_one_it_says() -> None:
    """The jumped states equal the recurrence, step by step."""
    state, expected = 9, []
    for _ in range(50):
        state = (state * 1140671485 + 12820163) % (1 << 24)
        expected.append(state / (1 << 24))
    assert WEAK.open(9)(50).tolist() == expected


def test_holm_multiplies_the_smallest_most_and_never_falls() -> None:
    """P values 0.01, 0.02, 0.5 of three tests become 0.03, 0.04, 0.5."""
    assert holm({"a": 0.5, "b": 0.01, "c": 0.02}) == pytest.approx({"a": 0.5, "b": 0.03, "c": 0.04})
    assert holm({"a": 0.04, "b": 0.03}) == pytest.approx({"a": 0.06, "b": 0.06})
