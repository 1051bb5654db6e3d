"""A planted fault: a KV layout whose allocations fail now and then, as if no memory were free.

Stands in front of the real layout (`kv_arena`) and lets everything else through. A failed
allocation has changed nothing, so the scheduler does what it does when the arena is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.server.kv_arena import KvCache
    from harness.server.sequence import Sequence


class FailingCache:
    """A layout of which every `every`-th allocation fails."""

    def __init__(self, cache: KvCache, every: int) -> None:
        self._cache = cache
        self._every = every
        self._n_allocations = 0

    def grow(self, sequence: Sequence, n_tokens: int) -> bool:
        """Grow, unless that needs memory and it is this one's turn to fail."""
        if n_tokens > sequence.n_slots and self._fails():
            return False
        return self._cache.grow(sequence, n_tokens)

    def reserve(self, sequence: Sequence) -> bool:
        """Reserve, unless it is this one's turn to fail."""
        return not self._fails() and self._cache.reserve(sequence)

    def release(self, sequence: Sequence) -> None:
        """Take all slots back."""
        self._cache.release(sequence)

    @property
    def n_held(self) -> int:
        """Arena slots in the hands of sequences, each counted once."""
        return self._cache.n_held

    def check_integrity(self, sequences: list[Sequence]) -> list[str]:
        """Name everything that does not add up."""
        return self._cache.check_integrity(sequences)

    def _fails(self) -> bool:
        self._n_allocations += 1
        return self._n_allocations % self._every == 0
