"""The pools of a server: which one runs a request, and what happens when one dies.

Requests that name no pool run in the first. `device_pool` sends a request to the pool of the first
one's dtype that would be done with it soonest, `device_pool:bf16` to the pools of that dtype. A
pool whose process dies stays out; its requests start anew in another of its dtype, once.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.base.errors import SetupError
from harness.server.api_error import ApiError
from harness.server.job import EndItem
from harness.server.pool_options import ANY_POOL, SHORT_DTYPES, dtype_word

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from harness.server.engine_link import EngineLink
    from harness.server.job import Job
    from harness.server.options import ServerOptions
    from harness.server.pool_costs import Left
    from harness.server.pool_options import Dtype

_log = logging.getLogger(__name__)


class Pool:
    """One engine process as the front sees it.

    Attributes:
        mark: What its answers add to the model's fingerprint: other dtypes give other answers.
    """

    def __init__(self, options: ServerOptions, link: EngineLink, pid: int) -> None:
        (own,) = options.pool
        self.name = own.name
        self.dtype: Dtype = own.dtype
        self.mark = "" if own.dtype == "float32" else f"_{SHORT_DTYPES[own.dtype]}"
        self.kv_tokens = options.kv_tokens
        self.n_slots = options.max_num_seqs
        self.link = link
        self.pid = pid

    def predict_s(self, asked: Sequence[Left]) -> float:
        """Predict the seconds until the last of the asked sequences would be complete here."""
        ahead = [job.left for job in self.link.jobs]
        return self.link.costs.predict_s(ahead, asked, self.n_slots)


@dataclass(eq=False, kw_only=True)
class Placement:
    """Where one request runs; all of its sequences are together.

    Attributes:
        n_slots: KV slots that its longest sequence needs.
        n_restarts: How often its pool died under it.
    """

    pool: Pool
    n_slots: int
    n_restarts: int = 0


class Pools:
    """Every pool, in the order of the options.

    Args:
        on_last_death: Called when no pool is left.
    """

    def __init__(self, on_last_death: Callable[[], None]) -> None:
        self._on_last_death = on_last_death
        self._pools: list[Pool] = []
        self._is_closing = False
        self.restarts: Counter[str] = Counter()

    def add(self, pool: Pool) -> None:
        """Take a pool whose engine is ready.

        Raises:
            SetupError: It has died since.
        """
        if not pool.link.is_alive:
            raise SetupError(f"pool {pool.name}: the engine process died while the server started")
        self._pools.append(pool)
        self.restarts[pool.name] = 0

    def close(self) -> None:
        """Close every socket, which ends the engines."""
        self._is_closing = True
        for pool in self._pools:
            pool.link.close()

    @property
    def states(self) -> dict[str, str]:
        """Tell of every pool whether it serves."""
        return {each.name: "ok" if each.link.is_alive else "died" for each in self._pools}

    @property
    def is_alive(self) -> bool:
        """Whether any pool serves."""
        return bool(self.living)

    @property
    def n_jobs(self) -> int:
        """Sequences with the engines, running or waiting."""
        return sum(len(pool.link.jobs) for pool in self._pools)

    @property
    def n_slots(self) -> int:
        """Sequences that run together, over all pools."""
        return sum(pool.n_slots for pool in self.living)

    @property
    def members(self) -> Sequence[Pool]:
        """Every pool, dead ones too."""
        return self._pools

    @property
    def named(self) -> tuple[str, ...]:
        """Words that name pools of another dtype than the first's, which are lossy."""
        others = {pool.dtype for pool in self._pools} - {self._pools[0].dtype}
        return tuple(dtype_word(dtype) for dtype in SHORT_DTYPES if dtype in others)

    @property
    def living(self) -> list[Pool]:
        """The pools that serve."""
        return [pool for pool in self._pools if pool.link.is_alive]

    def most_kv_tokens(self, features: tuple[str, ...]) -> int:
        """Give the KV slots of the largest pool that these features may run in.

        Raises:
            ApiError: No such pool is left.
        """
        return max(pool.kv_tokens for pool in self._allowed(features))

    def place(self, features: tuple[str, ...], asked: Sequence[Left], *, n_slots: int) -> Placement:
        """Choose the pool of a request whose longest sequence needs `n_slots` KV slots.

        Raises:
            ApiError: No pool that these features may run in is left.
        """
        fitting = [pool for pool in self._allowed(features) if pool.kv_tokens >= n_slots]
        return Placement(pool=_soonest(fitting, asked), n_slots=n_slots)

    def _allowed(self, features: tuple[str, ...]) -> list[Pool]:
        """Find the pools a request may run in: one, unless it leaves the choice."""
        first = self._pools[0].dtype
        words = [word for word in features if word.partition(":")[0] == ANY_POOL]
        dtypes = [
            dtype
            for dtype in SHORT_DTYPES
            if dtype_word(dtype) in words or (dtype == first and (not words or ANY_POOL in words))
        ]
        allowed = [pool for pool in self.living if pool.dtype in dtypes]
        if not allowed:
            raise ApiError(
                503,
                f"the engine process died: no pool of {' or '.join(dtypes)} is left; restart the "
                "server",
                code="engine_died",
            )
        return allowed if words else allowed[:1]

    def lose(self, name: str, jobs: Iterable[Job]) -> None:
        """Let a pool go whose process has died, and begin its jobs anew elsewhere."""
        if self._is_closing or name not in self.states:
            return
        by_request: dict[Placement, list[Job]] = {}
        for job in jobs:
            by_request.setdefault(job.placement, []).append(job)
        _log.error(
            "pool %s: the engine process died; %s of its requests begin anew elsewhere",
            name,
            sum(self._restart(placement, own) for placement, own in by_request.items()),
        )
        if not self.is_alive:
            self._on_last_death()

    def _restart(self, placement: Placement, jobs: Sequence[Job]) -> bool:
        """Begin a request anew in a pool that gives the same tokens; whether there was one."""
        lost = placement.pool
        others = [
            pool
            for pool in self.living
            if pool.dtype == lost.dtype and pool.kv_tokens >= placement.n_slots
        ]
        if placement.n_restarts or not others:
            for job in jobs:
                job.push(EndItem(0, "engine_died", 0, 0, [], {}))
            return False
        now_ns = time.perf_counter_ns()
        for job in jobs:
            job.restart(now_ns)
        placement.pool = _soonest(others, [job.left for job in jobs])
        placement.n_restarts += 1
        self.restarts[lost.name] += 1
        for job in jobs:
            placement.pool.link.take(job)
            if job.is_stopped:
                job.stop()
        return True


def _soonest(pools: Sequence[Pool], asked: Sequence[Left]) -> Pool:
    """Choose the pool that would be done first; the first of several."""
    if len(pools) == 1:
        return pools[0]
    return min(pools, key=lambda pool: pool.predict_s(asked))
