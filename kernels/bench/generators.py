"""The generators that are compared: what they are called, and how numbers are had from them.

Two ways of each: uniform numbers as a sampler takes them (timed), and whole numbers of 20 bits for
the battery (`kernels.bench.battery`). One is weak on purpose: it shows that the battery can fail.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from kernels.backend import has_native
from kernels.bench.battery import BITS, TESTS, Draws, streams
from kernels.monte_carlo import draw_monte_carlo

Uniforms = NDArray[np.float64] | NDArray[np.float32]
Source = Callable[[int], Uniforms]
_LCG_MODULUS: Final = 1 << 24


@dataclass(frozen=True, kw_only=True)
class Generator:
    """One source of randomness.

    Attributes:
        open: seed to a source, of which n numbers in [0, 1) are drawn; OS entropy has no seed.
        is_weak: planted: must fail the battery.
    """

    name: str
    open: Callable[[int], Source]
    is_weak: bool = False

    def draws(self, seed: int, n: int) -> Draws:
        """Upper 20 bits of n numbers."""
        scaled = self.open(seed)(n) * float(1 << BITS)
        return scaled.astype(np.uint32)

    def judge(self, seed: int, n: int) -> dict[str, float]:
        """Give the p value of every test on n numbers, and of two consecutive seeds together."""
        draws = self.draws(seed, n)
        found = {name: test(draws) for name, test in TESTS.items()}
        return found | {"streams": streams(draws, self.draws(seed + 1, n))}


def _os_entropy(_: int) -> Source:
    def draw(n: int) -> Uniforms:
        words = np.frombuffer(os.urandom(8 * n), dtype=np.uint64)
        return (words >> np.uint64(11)) * 2.0**-53

    return draw


def _numpy(bits: type[np.random.BitGenerator]) -> Callable[[int], Source]:
    return lambda seed: np.random.Generator(bits(seed)).random


def _ours(seed: int) -> Source:
    rows = torch.zeros(1, dtype=torch.int64)

    def draw(n: int) -> Uniforms:
        drawn: NDArray[np.float32] = draw_monte_carlo("uniform", rows, n, seed=seed)[0].numpy()
        return drawn

    return draw


def _short_lcg(seed: int, n: int) -> Uniforms:
    """Step by x' = 1140671485 x + 12820163 mod 2^24: few numbers, and low bits that alternate.

    Source: the generator of a once common BASIC.
    """
    steps = np.arange(1, n + 1, dtype=np.uint64)
    factor, shift = np.uint64(1140671485 % _LCG_MODULUS), np.uint64(12820163)
    state = np.full(n, seed % _LCG_MODULUS, dtype=np.uint64)
    # k steps at once by doubling: x -> a x + c, twice: a^2 x + (a + 1) c.
    for bit in range(int(n).bit_length()):
        is_set = (steps >> np.uint64(bit)) & np.uint64(1) == 1
        state[is_set] = (state[is_set] * factor + shift) % np.uint64(_LCG_MODULUS)
        shift = (shift * (factor + np.uint64(1))) % np.uint64(_LCG_MODULUS)
        factor = (factor * factor) % np.uint64(_LCG_MODULUS)
    return state / float(_LCG_MODULUS)


OS_ENTROPY: Final = Generator(name="OS entropy", open=_os_entropy)
OURS: Final = f"monte_carlo ({'native' if has_native() else 'torch'} Philox)"
GENERATORS: Final = (
    OS_ENTROPY,
    Generator(name="PCG64", open=_numpy(np.random.PCG64)),
    Generator(name="Philox (numpy)", open=_numpy(np.random.Philox)),
    Generator(name="MT19937", open=_numpy(np.random.MT19937)),
    Generator(name=OURS, open=_ours),
    Generator(name="short LCG (weak)", open=lambda seed: partial(_short_lcg, seed), is_weak=True),
)
