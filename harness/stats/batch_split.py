"""How many sequences each group of well-connected GPUs should run, and in which pieces.

Groups are the islands that links join. A group's share goes through in micro-batches, each as large
as its links can exchange within a latency budget, so that the exchange of one hides behind the work
on the next; the last piece keeps the remainder. Shares make the slowest group as fast as can be.
This is a model, not a measurement: work is linear in sequences and shared alike within a group.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.stats.ring import Route, along, best_route

HOP_S: Final = 1e-6
"""Latency of one hop of a collective."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a sequence costs between two exchanges.

    Attributes:
        sequence_bytes: exchanged for each sequence.
        sequence_s: time that one GPU alone would work on it.
        budget_s: time that the exchange of one micro-batch may take.
    """

    sequence_bytes: float
    sequence_s: float
    budget_s: float


@dataclass(frozen=True, kw_only=True)
class Share:
    """What one group runs.

    Attributes:
        n_sequences: its part of the batch.
        micro_batch: sequences of a full piece.
    """

    route: Route
    work: Work
    n_sequences: int
    micro_batch: int

    @property
    def pieces(self) -> tuple[int, ...]:
        """Sequences of each piece in turn; the last keeps the remainder."""
        full, rest = divmod(self.n_sequences, self.micro_batch)
        return (self.micro_batch,) * full + ((rest,) if rest else ())

    @property
    def compute_s(self) -> float:
        """Time of the work alone."""
        return _compute_s(self.route, self.work, self.n_sequences)

    @cached_property
    def exchange_s(self) -> float:
        """Time of the exchanges alone."""
        return sum(self.route.exchange_s(piece * self.work.sequence_bytes) for piece in self.pieces)

    @cached_property
    def total_s(self) -> float:
        """Until the last piece is exchanged; pieces are worked on and exchanged in turn."""
        return _total_s(self.route, self.work, self.micro_batch, self.n_sequences)

    @property
    def hidden_share(self) -> float | None:
        """Part of the exchange that the work on later pieces hides; None without an exchange."""
        if not self.exchange_s:
            return None
        return (self.compute_s + self.exchange_s - self.total_s) / self.exchange_s


@dataclass(frozen=True, kw_only=True)
class Split:
    """A batch, split; caveats say what the model could not hold. No shares: no way round at all."""

    shares: tuple[Share, ...]
    caveats: tuple[str, ...] = ()

    @property
    def total_s(self) -> float:
        """The slowest group's time."""
        return max(share.total_s for share in self.shares)

    def in_one_piece(self) -> "Split":
        """The same shares without micro-batches: what the groups alone are worth."""
        whole = [replace(each, micro_batch=max(1, each.n_sequences)) for each in self.shares]
        return replace(self, shares=tuple(whole))


def split_by_links(
    links: NDArray[np.float64], host: float | None, n_sequences: int, work: Work
) -> Split:
    """Shares by island; an island whose links make neither ring nor chain goes over the host.

    Args:
        links: bandwidth of the links between each two GPUs, 0 where there are none.
        host: bandwidth between any two over the host; None where it is not known.
        n_sequences: the batch.
        work: what a sequence costs.

    Shapes:
        links: (n_gpus, n_gpus), symmetric, diagonal ignored.
    """
    caveats: list[str] = []
    routes: list[Route] = []
    for island in islands(links):
        size = n_sequences * work.sequence_bytes
        route = best_route(links, island, HOP_S, size)
        if route is None and host:
            route = best_route(_with_host(links, host), island, HOP_S, size)
        if route is None:
            caveats.append(f"GPUs {_words(island)}: no way round, left out")
        else:
            routes.append(route)
    pieces = [_micro_batch(route, work, n_sequences) for route in routes]
    for route, piece in zip(routes, pieces, strict=True):
        if route.exchange_s(piece * work.sequence_bytes) > work.budget_s:
            caveats.append(
                f"GPUs {_words(route.order)}: one sequence's exchange alone is over the budget"
            )
    shares = tuple(
        Share(route=route, work=work, n_sequences=n, micro_batch=piece)
        for route, piece, n in zip(
            routes, pieces, _shares(routes, pieces, work, n_sequences), strict=True
        )
    )
    return Split(shares=shares, caveats=tuple(caveats))


def split_evenly(
    links: NDArray[np.float64], host: float | None, n_sequences: int, work: Work
) -> Split | None:
    """All GPUs in one ring by number, the batch in one piece; None where the ring has a gap."""
    route = along(_with_host(links, host or 0.0), tuple(range(len(links))), HOP_S)
    if route is None:
        return None
    share = Share(route=route, work=work, n_sequences=n_sequences, micro_batch=n_sequences)
    return Split(shares=(share,))


def islands(links: NDArray[np.float64]) -> list[tuple[int, ...]]:
    """Groups of GPUs that links join, directly or through others, by smallest number."""
    left, found = set(range(len(links))), []
    while left:
        reached, border = set(), {min(left)}
        while border:
            reached |= border
            border = {other for one in border for other in left if links[one, other] > 0} - reached
        left -= reached
        found.append(tuple(sorted(reached)))
    return found


def _with_host(links: NDArray[np.float64], host: float) -> NDArray[np.float64]:
    return np.maximum(links, host)


def _micro_batch(route: Route, work: Work, most: int) -> int:
    """The largest piece whose exchange keeps the budget, at least one sequence."""
    low, high = 1, most
    while low < high:
        middle = (low + high + 1) // 2
        if route.exchange_s(middle * work.sequence_bytes) <= work.budget_s:
            low = middle
        else:
            high = middle - 1
    return low


def _compute_s(route: Route, work: Work, n: int) -> float:
    return n * work.sequence_s / len(route.order)


def _total_s(route: Route, work: Work, piece: int, n: int) -> float:
    """Work and exchange as a pipeline of two stages, in closed form for equal pieces."""
    full, rest = divmod(n, piece)
    compute, exchange = (
        _compute_s(route, work, piece),
        route.exchange_s(piece * work.sequence_bytes),
    )
    worked = full * compute
    done = compute + (full - 1) * max(compute, exchange) + exchange if full else 0.0
    if rest:
        worked += _compute_s(route, work, rest)
        done = max(worked, done) + route.exchange_s(rest * work.sequence_bytes)
    return done


def _shares(routes: list[Route], pieces: list[int], work: Work, n: int) -> list[int]:
    """Each sequence to the group that would be done soonest: the least of the largest times.

    That is exact, since a group's time only grows with its sequences.
    """
    shares = [0] * len(routes)
    for _ in range(n if routes else 0):
        times = [
            _total_s(route, work, piece, share + 1)
            for route, piece, share in zip(routes, pieces, shares, strict=True)
        ]
        shares[int(np.argmin(times))] += 1
    return shares


def _words(gpus: tuple[int, ...]) -> str:
    return ", ".join(str(each) for each in sorted(gpus))
