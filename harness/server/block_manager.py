"""Block manager: hands out fixed-size KV blocks, with reference counts.

What `paged_kv` keeps sequences in: a table of 16-token blocks that need not be neighbours, so that
memory is wasted only in a sequence's last block. Book-keeping only: it knows block numbers, not
tensors. A block may have several owners (a shared prefix) and is free when the last one lets go.
Source: Kwon et al., PagedAttention, 2023, section 4.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

BLOCK_SIZE: Final = 16


def blocks_for(n_tokens: int) -> int:
    """Give the number of blocks that hold `n_tokens`."""
    return -(-n_tokens // BLOCK_SIZE)


class BlockManager:
    """Owns `n_blocks` blocks; who holds one is counted, not remembered."""

    def __init__(self, n_blocks: int) -> None:
        self.n_blocks = n_blocks
        self._free: deque[int] = deque(range(n_blocks))
        self._n_owners = [0] * n_blocks

    @property
    def n_free(self) -> int:
        """Blocks without an owner."""
        return len(self._free)

    def allocate(self, count: int) -> list[int] | None:
        """Take `count` blocks, each with one owner; all of them or None."""
        if count > len(self._free):
            return None
        blocks = [self._free.popleft() for _ in range(count)]
        for block in blocks:
            self._n_owners[block] = 1
        return blocks

    def share(self, blocks: Iterable[int]) -> None:
        """Add an owner to blocks that have one."""
        for block in blocks:
            if self._n_owners[block] == 0:
                raise ValueError(f"block {block} is free and cannot be shared")
            self._n_owners[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Remove one owner of each block; a block without owners is free again."""
        for block in blocks:
            if self._n_owners[block] == 0:
                raise ValueError(f"block {block} is already free")
            self._n_owners[block] -= 1
            if self._n_owners[block] == 0:
                self._free.append(block)

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> list[str]:
        """Name every block whose state disagrees with the `tables` of all owners."""
        owners = Counter(block for table in tables for block in table)
        free = Counter(self._free)
        problems = []
        for block in range(self.n_blocks):
            if owners[block] != self._n_owners[block]:
                problems.append(
                    f"block {block} counts {self._n_owners[block]} owners, has {owners[block]}"
                )
            if free[block] != (self._n_owners[block] == 0):
                problems.append(
                    f"block {block} with {self._n_owners[block]} owners is {free[block]} times free"
                )
        return problems
