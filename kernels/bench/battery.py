"""Tests of randomness on whole numbers of 20 bits, each a p value; pure functions of an array.

What they look at is the upper 20 bits of a draw, which every generator has and a float32 carries.
A p value near 0 speaks against the generator; a fit that is too good counts as well, so every test
is two-sided. Where the numbers come from is `kernels.bench.generators`'s business.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Draws = NDArray[np.uint32]

BITS: Final = 20
DAYS: Final = 1 << BITS
_BLOCK: Final = 128
_BIRTHDAYS: Final = 256
_FEWEST: Final = 10
"""What a class of a chi-square is expected to hold at least."""


def monobit(draws: Draws) -> float:
    """As many ones as zeros.

    Source: NIST SP 800-22 rev. 1a, section 2.1.
    """
    bits = _bits(draws)
    return _two_sided(stats.norm.cdf((2.0 * bits.sum() - bits.size) / np.sqrt(bits.size)))


def block_frequency(draws: Draws) -> float:
    """Ones and zeros even out in every block of 128 bits.

    Source: NIST SP 800-22 rev. 1a, section 2.2.
    """
    bits = _bits(draws)
    blocks = bits[: bits.size // _BLOCK * _BLOCK].reshape(-1, _BLOCK)
    share = blocks.mean(axis=1)
    return _two_sided(stats.chi2.cdf(4 * _BLOCK * ((share - 0.5) ** 2).sum(), len(blocks)))


def runs(draws: Draws) -> float:
    """Ones and zeros change as often as they should.

    Source: NIST SP 800-22 rev. 1a, section 2.3.
    """
    bits = _bits(draws)
    share = bits.mean()
    n_runs = 1 + np.count_nonzero(bits[1:] != bits[:-1])
    even = 2 * bits.size * share * (1 - share)
    spread = 2 * np.sqrt(bits.size) * share * (1 - share)
    return _two_sided(stats.norm.cdf((n_runs - even) / spread))


def serial_pairs(draws: Draws) -> float:
    """Every pair of upper 5 bits of neighbours is as frequent as any other.

    Source: Knuth, The Art of Computer Programming 2, 3rd ed., section 3.3.2 B.
    """
    return _serial(draws, n_together=2, n_bits=5)


def serial_triples(draws: Draws) -> float:
    """Every triple of upper 4 bits of neighbours is as frequent as any other.

    Source: Knuth, The Art of Computer Programming 2, 3rd ed., section 3.3.2 B.
    """
    return _serial(draws, n_together=3, n_bits=4)


def low_bits(draws: Draws) -> float:
    """Every pair of the lowest 4 of the 20 bits of neighbours is as frequent as any other."""
    low = (draws & np.uint32(15)) << np.uint32(BITS - 4)
    return _serial(low, n_together=2, n_bits=4)


def gaps(draws: Draws) -> float:
    """The draws between two that fall into the lowest eighth are geometrically many.

    Source: Knuth, The Art of Computer Programming 2, 3rd ed., section 3.3.2 D.
    """
    places = np.flatnonzero(draws < DAYS // 8)
    longest = int(np.log(len(places) / _FEWEST) / np.log(8 / 7))  # and longer, in one class
    seen = np.bincount(np.minimum(np.diff(places) - 1, longest), minlength=longest + 1)
    share = np.float64(1 / 8) * (7 / 8) ** np.arange(longest + 1, dtype=np.float64)
    share[-1] = (7 / 8) ** longest
    return _chi_square(seen, share)


def birthday_spacings(draws: Draws) -> float:
    """Equal spacings among 256 birthdays in 2^20 days: Poisson with mean 256^3 / 2^22 = 4.

    Source: Marsaglia and Tsang, Some difficult-to-pass tests of randomness, 2002.
    """
    years = draws[: draws.size // _BIRTHDAYS * _BIRTHDAYS].reshape(-1, _BIRTHDAYS)
    spacings = np.sort(np.diff(np.sort(years.astype(np.int64), axis=1), axis=1), axis=1)
    n_equal = np.count_nonzero(np.diff(spacings, axis=1) == 0)
    mean = len(years) * _BIRTHDAYS**3 / (4 * DAYS)
    return _two_sided(float(stats.poisson.cdf(n_equal, mean)))


def uniformity(draws: Draws) -> float:
    """Kolmogorov-Smirnov against the uniform law; the middle of a step stands for the step."""
    return float(stats.kstest((draws + 0.5) / DAYS, "uniform").pvalue)


def known_mean(draws: Draws) -> float:
    """The mean of -ln u, which a Monte-Carlo estimate should give as 1."""
    values = -np.log((draws + 0.5) / DAYS)
    return _two_sided(stats.norm.cdf((values.mean() - 1) * np.sqrt(values.size) / values.std()))


def streams(draws: Draws, others: Draws) -> float:
    """Two streams (of consecutive seeds) know nothing of each other: upper 4 bits, pair by pair."""
    joint = (draws >> (BITS - 4)) * 16 + (others >> (BITS - 4))
    return _chi_square(np.bincount(joint, minlength=256), np.full(256, 1 / 256))


TESTS: Final[dict[str, Callable[[Draws], float]]] = {
    "monobit": monobit,
    "block frequency": block_frequency,
    "runs": runs,
    "serial pairs": serial_pairs,
    "serial triples": serial_triples,
    "low bits": low_bits,
    "gaps": gaps,
    "birthday spacings": birthday_spacings,
    "uniformity": uniformity,
    "known mean": known_mean,
}


def holm(p_values: dict[str, float]) -> dict[str, float]:
    """Adjusted p values: all those below alpha may be called failures at family-wise alpha.

    Source: Holm, A simple sequentially rejective multiple test procedure, 1979.
    """
    adjusted: dict[str, float] = {}
    least = 0.0
    for place, name in enumerate(sorted(p_values, key=lambda each: p_values[each])):
        least = max(least, min(1.0, (len(p_values) - place) * p_values[name]))
        adjusted[name] = least
    return {name: adjusted[name] for name in p_values}


def _bits(draws: Draws) -> NDArray[np.uint8]:
    """All bits, the uppermost of a draw first."""
    shifts = np.arange(BITS - 1, -1, -1, dtype=np.uint32)
    return ((draws[:, None] >> shifts) & 1).astype(np.uint8).ravel()


def _serial(draws: Draws, *, n_together: int, n_bits: int) -> float:
    """Chi-square of neighbours taken together, without overlap."""
    parts = draws >> (BITS - n_bits)
    whole = parts[: parts.size // n_together * n_together].reshape(-1, n_together)
    words = whole @ ((1 << n_bits) ** np.arange(n_together))
    n_words = 1 << (n_bits * n_together)
    return _chi_square(np.bincount(words, minlength=n_words), np.full(n_words, 1 / n_words))


def _chi_square(seen: NDArray[np.int64], share: NDArray[np.floating]) -> float:
    expected = seen.sum() * share
    distance = float(((seen - expected) ** 2 / expected).sum())
    return _two_sided(stats.chi2.cdf(distance, len(seen) - 1))


def _two_sided(below: float) -> float:
    """Twice the smaller tail."""
    return float(min(1.0, 2 * min(below, 1 - below)))
