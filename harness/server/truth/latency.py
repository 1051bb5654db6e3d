"""Latencies drawn from a law: the curve in closed form, the noise from one seeded stream.

Draws are made in order of arrival, one set per request, whatever the request asks for: a law with
the same seed plants the same sequence.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from harness.base.rng import generator
from harness.server.truth.law import MAX_LATENCY_S, Break, Curve, Law, Noise

CAPACITY_SHARE = 0.99
MOST_LOG_FACTOR = 100.0
"""Far past `MAX_LATENCY_S`, and no overflow."""


@dataclass(frozen=True, kw_only=True)
class Planted:
    """What the law gives one request: time to first token, gap between tokens."""

    ttft_s: float
    itl_s: float


class LatencySource:
    """Draws the planted latencies of one server's life."""

    def __init__(self, law: Law) -> None:
        self._law = law
        self._ttft_noise = NoiseSource(law.ttft.noise, generator(law.seed, "ttft"))
        self._itl_noise = NoiseSource(law.itl.noise, generator(law.seed, "itl"))

    def plant(self, factors: Mapping[str, float], elapsed_s: float) -> Planted:
        """Latencies of the next request, `elapsed_s` after the first one."""
        law = self._law
        drift = 1.0 if law.drift is None else 1.0 + law.drift.per_s * elapsed_s
        ttft_s = curve_s(law.ttft, factors[law.ttft.factor]) * self._ttft_noise.draw() * drift
        itl_s = curve_s(law.itl, factors[law.itl.factor]) * self._itl_noise.draw() * drift
        return Planted(ttft_s=_possible(ttft_s), itl_s=_possible(itl_s))


def _possible(latency_s: float) -> float:
    """Held between 0 (a falling line may pass it) and the longest."""
    return min(max(latency_s, 0.0), MAX_LATENCY_S)


def curve_s(curve: Curve, x: float) -> float:
    """Latency at the factor's value `x`, without noise: the median that the law plants."""
    smooth = curve.base_s + curve.slope_s * x
    if curve.hyperbola is not None:
        capacity = curve.hyperbola.capacity
        held = min(x, CAPACITY_SHARE * capacity)
        smooth += curve.hyperbola.scale_s * held / (capacity - held)
    log_factor = sum(_log_factor(item, x) for item in curve.breaks)
    return smooth * math.exp(min(log_factor, MOST_LOG_FACTOR))


def _log_factor(item: Break, x: float) -> float:
    if x <= item.at:
        return 0.0
    if item.kind == "jump":
        return math.log1p(item.size)
    return item.size * math.log2(x / item.at)


class NoiseSource:
    """Multiplicative noise with median 1 over consecutive requests."""

    def __init__(self, noise: Noise, rng: np.random.Generator) -> None:
        self._noise = noise
        self._rng = rng
        self._sigma = math.sqrt(math.log1p(noise.cv**2))
        self._state = float(rng.standard_normal())

    def draw(self) -> float:
        """The factor of the next request.

        z_t = ar z_(t-1) + sqrt(1 - ar^2) e_t, factor exp(sigma z_t), sigma^2 = log(1 + cv^2); with
        probability `tail_share` times u^(-1/alpha), u uniform.
        """
        noise, rng = self._noise, self._rng
        fresh, pick, u = float(rng.standard_normal()), float(rng.random()), float(rng.random())
        self._state = noise.ar * self._state + math.sqrt(1 - noise.ar**2) * fresh
        factor = math.exp(self._sigma * self._state)
        if pick < noise.tail_share:
            factor *= (1.0 - u) ** (-1.0 / noise.tail_alpha)
        return factor
