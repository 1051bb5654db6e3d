"""Request rows with a planted truth: what a run of a server would have left behind.

latency = law(copula) x exp(start effect + drift of the wall clock), plus stalls that hold up all in
flight and lag of the client. Rows carry the times and the parts they are made of; latencies count
from the time that was planned.
"""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from harness.stats.bed.marginals import MARGINALS, Array, copula

STALL_EVERY_S, STALL_S = 120.0, (1.0, 5.0)
PAUSE_SHARE, PAUSE_S = 0.02, 0.05
PREFILL = 0.3
STICKS = 0.8


class Drift(StrEnum):
    """How the wall clock moves latencies: 6 % over the run, 4 % sine, hosts 4 % apart."""

    NONE = "none"
    LINEAR = "linear"
    SINE = "sine"
    STICKY_HOST = "sticky host"


@dataclass(frozen=True, kw_only=True)
class Bed:
    """What is planted.

    Units: median_s and times in seconds, rate_rps in requests a second, start_sd in log units.
    """

    marginal: str = "log-normal 0.6"
    phi: float = 0.0
    n_starts: int = 1
    n_per_start: int = 1000
    start_sd: float = 0.0
    drift: Drift = Drift.NONE
    has_stalls: bool = False
    has_client_lag: bool = False
    median_s: float = 0.5
    rate_rps: float = 10.0
    arm: str = "A"
    cell: str = "0"


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Requests in order of time.

    Attributes:
        parts: seconds of client, queue, prefill and decode; they add up to t_done - t_sched.

    Shapes: all arrays (n_starts * n_per_start,).
    """

    start: NDArray[np.int64]
    t_sched: Array
    t_send: Array
    t_first: Array
    t_done: Array
    arm: str
    cell: str
    parts: dict[str, Array] = field(default_factory=dict)

    @property
    def latency(self) -> Array:
        """Seconds from the planned time to the end."""
        return self.t_done - self.t_sched


def draw_rows(bed: Bed, rng: np.random.Generator) -> Rows:
    """Rows of all starts of the server, one start after the other."""
    shape = (bed.n_starts, bed.n_per_start)
    start = np.repeat(np.arange(bed.n_starts), bed.n_per_start)
    t_sched = np.cumsum(rng.exponential(1 / bed.rate_rps, start.size))
    z = np.stack([copula(bed.n_per_start, bed.phi, rng) for _ in range(bed.n_starts)])
    moved = bed.start_sd * rng.standard_normal((bed.n_starts, 1)) + np.zeros(shape)
    level = moved.ravel() + _drift(bed, start, t_sched / t_sched[-1], rng)
    service = bed.median_s * MARGINALS[bed.marginal](z.ravel()) * np.exp(level)
    lag = _pauses(start.size, rng) if bed.has_client_lag else np.zeros(start.size)
    t_send = t_sched + lag
    wait = _stalls(t_send, service, rng) if bed.has_stalls else np.zeros(start.size)
    t_first = t_send + wait + PREFILL * service
    t_done = t_send + wait + service
    parts = {
        "client": lag, "queue": wait,
        "prefill": PREFILL * service, "decode": (1 - PREFILL) * service,
    }  # fmt: skip
    return Rows(
        start=start, t_sched=t_sched, t_send=t_send, t_first=t_first, t_done=t_done,
        arm=bed.arm, cell=bed.cell, parts=parts,
    )  # fmt: skip


def _drift(bed: Bed, start: NDArray[np.int64], time: Array, rng: np.random.Generator) -> Array:
    """Log units by which the level moves; time runs from 0 to 1."""
    if bed.drift is Drift.LINEAR:
        linear: Array = np.log1p(0.06) * time
        return linear
    if bed.drift is Drift.SINE:
        sine: Array = 0.04 * np.sin(2 * np.pi * (time + rng.random()))
        return sine
    if bed.drift is Drift.STICKY_HOST:
        moves = np.cumsum(rng.random(bed.n_starts) > STICKS)
        hosts = 0.04 * rng.standard_normal(bed.n_starts)
        level: Array = hosts[moves - moves[0]][start]
        return level
    return np.zeros(time.size)


def _pauses(n: int, rng: np.random.Generator) -> Array:
    """Seconds by which the client sends late: few requests, exponential pauses."""
    out: Array = np.where(rng.random(n) < PAUSE_SHARE, rng.exponential(PAUSE_S, n), 0.0)
    return out


def _stalls(t_send: Array, service: Array, rng: np.random.Generator) -> Array:
    """Seconds that stalls add: all of one that comes in flight, the rest of one on arrival."""
    wait = np.zeros(t_send.size)
    end = float(t_send[-1])
    for begin in np.sort(rng.uniform(0, end, rng.poisson(end / STALL_EVERY_S))):
        length = rng.uniform(*STALL_S)
        in_flight = (t_send <= begin) & (t_send + wait + service > begin)
        arrives = (t_send > begin) & (t_send < begin + length)
        wait += np.where(in_flight, length, 0.0) + np.where(arrives, begin + length - t_send, 0.0)
    return wait
