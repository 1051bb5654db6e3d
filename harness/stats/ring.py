"""The best way round a group of GPUs: the ring, or the chain, whose slowest hop is fastest.

An all-reduce of B bytes among k takes 2 (k-1)/k B / w + 2 (k-1) a on a ring and 2 B / w + 2 (k-1) a
on a chain, with w the bandwidth of the slowest hop and a the latency of one.
Source: Thakur, Rabenseifner, Gropp, Optimization of collective communication operations in MPICH
(2005), section 4.5 for the ring; the chain is a pipelined reduction to an end and a broadcast back.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Route:
    """An order of GPUs and what an exchange along it costs.

    Attributes:
        order: GPUs in the order in which they pass data on.
        is_ring: whether the last passes on to the first.
        bytes_per_s: of the slowest hop; infinite for one GPU, which exchanges nothing.
        hop_s: latency of one hop.
    """

    order: tuple[int, ...]
    is_ring: bool
    bytes_per_s: float
    hop_s: float

    def exchange_s(self, n_bytes: float) -> float:
        """Time of one all-reduce of this many bytes."""
        n = len(self.order)
        if n == 1:
            return 0.0
        rounds = 2 * (n - 1) / n if self.is_ring else 2.0
        return rounds * n_bytes / self.bytes_per_s + 2 * (n - 1) * self.hop_s


def best_route(
    bandwidth: NDArray[np.float64], gpus: tuple[int, ...], hop_s: float, n_bytes: float
) -> Route | None:
    """The ring or chain through `gpus` that exchanges `n_bytes` soonest; None where none is whole.

    Args:
        bandwidth: one direction between each two, 0 where they are not connected.
        gpus: which of them take part.
        hop_s: latency of one hop.
        n_bytes: what is exchanged.

    Shapes:
        bandwidth: (n_gpus, n_gpus), symmetric.
    """
    if len(gpus) == 1:
        return Route(order=gpus, is_ring=False, bytes_per_s=np.inf, hop_s=hop_s)
    routes = [
        route
        for is_ring in (True, False)
        if (route := _widest(bandwidth, gpus, hop_s, is_ring=is_ring)) is not None
    ]
    return min(routes, key=lambda route: route.exchange_s(n_bytes), default=None)


def along(bandwidth: NDArray[np.float64], gpus: tuple[int, ...], hop_s: float) -> Route | None:
    """The ring through `gpus` as they stand, as a split that knows no topology has it."""
    hops = pairwise((*gpus, gpus[0]))
    width = float(min(bandwidth[hop] for hop in hops)) if len(gpus) > 1 else np.inf
    return Route(order=gpus, is_ring=True, bytes_per_s=width, hop_s=hop_s) if width > 0 else None


def _widest(
    bandwidth: NDArray[np.float64], gpus: tuple[int, ...], hop_s: float, *, is_ring: bool
) -> Route | None:
    """By bisection: a way round that holds for a width holds for every smaller one."""
    widths = sorted({float(value) for value in bandwidth[np.ix_(gpus, gpus)].ravel() if value > 0})
    best, low, high = None, 0, len(widths) - 1
    while low <= high:
        middle = (low + high) // 2
        order = _order(bandwidth >= widths[middle], gpus, is_ring=is_ring)
        if order is None:
            high = middle - 1
        else:
            best, low = (order, widths[middle]), middle + 1
    if best is None:
        return None
    return Route(order=best[0], is_ring=is_ring, bytes_per_s=best[1], hop_s=hop_s)


def _order(
    joined: NDArray[np.bool_], gpus: tuple[int, ...], *, is_ring: bool
) -> tuple[int, ...] | None:
    """Sets of GPUs are bits of a number here: many are looked at."""
    near = {one: sum(1 << other for other in gpus if joined[one, other]) for one in gpus}
    whole = sum(1 << each for each in gpus)
    dead: set[tuple[int, int]] = set()
    for start in gpus[:1] if is_ring else gpus:
        last = near[start] if is_ring else whole
        order = _walk(near, (start,), whole & ~(1 << start), last, dead)
        if order is not None:
            return order
    return None


def _walk(
    near: dict[int, int], order: tuple[int, ...], left: int, last: int, dead: set[tuple[int, int]]
) -> tuple[int, ...] | None:
    """The first whole walk by number that ends in `last`; what led nowhere is not tried again."""
    if not left:
        return order if last >> order[-1] & 1 else None
    for each in near:
        rest = left & ~(1 << each)
        if (left & near[order[-1]]) >> each & 1 and (each, rest) not in dead:
            found = _walk(near, (*order, each), rest, last, dead)
            if found is not None:
                return found
            dead.add((each, rest))
    return None
