"""Allocator of contiguous ranges: what the baseline path keeps each sequence's KV in.

First fit over a list of free ranges that coalesce when freed. Book-keeping only: it knows token
slots, not tensors. Capacities double from 64 tokens, so a growing sequence moves rarely but holds
up to twice what it needs; a free total that is scattered cannot be used.
"""

from __future__ import annotations

from typing import Final

FIRST_CAPACITY: Final = 64


def capacity_for(n_tokens: int) -> int:
    """Give the smallest doubling of `FIRST_CAPACITY` that holds `n_tokens`."""
    capacity = FIRST_CAPACITY
    while capacity < n_tokens:
        capacity *= 2
    return capacity


class RangeAllocator:
    """Hands out ranges [start, start + length) of `n_slots` token slots."""

    def __init__(self, n_slots: int) -> None:
        self.n_slots = n_slots
        self._free: list[tuple[int, int]] = [(0, n_slots)]
        self._taken: dict[int, int] = {}

    @property
    def n_free(self) -> int:
        """Free slots in all ranges together; a single request may still not fit."""
        return sum(length for _, length in self._free)

    def allocate(self, length: int) -> int | None:
        """Take the first free range that is long enough; None when there is none."""
        for index, (start, free_length) in enumerate(self._free):
            if free_length < length:
                continue
            if free_length == length:
                del self._free[index]
            else:
                self._free[index] = (start + length, free_length - length)
            self._taken[start] = length
            return start
        return None

    def free(self, start: int) -> None:
        """Return a range by its start and join it with its free neighbours."""
        self._free.append((start, self._taken.pop(start)))
        self._free.sort()
        joined: list[tuple[int, int]] = []
        for begin, length in self._free:
            if joined and sum(joined[-1]) == begin:
                joined[-1] = (joined[-1][0], joined[-1][1] + length)
            else:
                joined.append((begin, length))
        self._free = joined

    def check_integrity(self) -> list[str]:
        """Name every way in which free and taken ranges fail to tile the slots exactly."""
        problems = []
        taken = set(self._taken.items())
        edge, was_free = 0, False
        for start, length in sorted([*self._free, *taken]):
            is_free = (start, length) not in taken
            if start != edge:
                problems.append(f"range at {start} does not begin where the last ends, {edge}")
            if length < 1:
                problems.append(f"range at {start} has length {length}")
            if is_free and was_free:
                problems.append(f"free ranges meet at {start} without being joined")
            edge, was_free = start + length, is_free
        if edge != self.n_slots:
            problems.append(f"ranges end at {edge}, there are {self.n_slots} slots")
        return problems
