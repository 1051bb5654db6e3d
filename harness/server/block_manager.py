"""Block manager: hands out fixed-size KV blocks, with reference counts.

What `paged_kv` keeps sequences in: a table of 16-token blocks that need not be neighbours, so that
memory is wasted only in a sequence's last block. Book-keeping only: it knows block numbers, not
tensors. A block may have several owners (a shared prefix). When the last one lets go it is free,
unless the prefix index can still find it: then it is kept, and given up when no free block is left,
the one longest without an owner first.
Source: Kwon et al., PagedAttention, 2023, section 4.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from typing import TYPE_CHECKING, Final

from harness.server.prefix_cache import PrefixIndex

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
        self.index = PrefixIndex(BLOCK_SIZE)
        self._free: deque[int] = deque(range(n_blocks))
        self._kept: OrderedDict[int, None] = OrderedDict()
        self._n_owners = [0] * n_blocks

    @property
    def n_free(self) -> int:
        """Blocks that `allocate` can give: without an owner, kept ones included."""
        return len(self._free) + len(self._kept)

    @property
    def n_kept(self) -> int:
        """Blocks without an owner that the prefix index can find."""
        return len(self._kept)

    def allocate(self, count: int) -> list[int] | None:
        """Take `count` blocks, each with one owner; all of them or None."""
        if count > self.n_free:
            return None
        blocks = [self._take() for _ in range(count)]
        for block in blocks:
            self._n_owners[block] = 1
        return blocks

    def _take(self) -> int:
        """Take a free block, or give up the kept one that was let go longest ago."""
        if self._free:
            return self._free.popleft()
        block, _ = self._kept.popitem(last=False)
        self.index.forget(block)
        return block

    def share(self, blocks: Iterable[int]) -> None:
        """Add an owner to blocks that have one, or that are kept."""
        for block in blocks:
            if self._n_owners[block] == 0:
                if block not in self._kept:
                    raise ValueError(f"block {block} is free and cannot be shared")
                del self._kept[block]
            self._n_owners[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Remove one owner of each block; what loses its last owner first is given up first."""
        for block in blocks:
            if self._n_owners[block] == 0:
                raise ValueError(f"block {block} is already free")
            self._n_owners[block] -= 1
            if self._n_owners[block] > 0:
                continue
            if block in self.index:
                self._kept[block] = None
            else:
                self._free.append(block)

    def forget_all(self) -> None:
        """Empty the prefix index: what the kept blocks hold is about to be overwritten."""
        self.index = PrefixIndex(BLOCK_SIZE)
        self._free.extend(self._kept)
        self._kept.clear()

    def check_integrity(self, tables: Iterable[Sequence[int]]) -> list[str]:
        """Name every block whose state disagrees with the `tables` of all owners."""
        owners = Counter(block for table in tables for block in table)
        free = Counter(self._free)
        problems = self.index.check_integrity()
        for block in range(self.n_blocks):
            if owners[block] != self._n_owners[block]:
                problems.append(
                    f"block {block} counts {self._n_owners[block]} owners, has {owners[block]}"
                )
            n_places = free[block] + (block in self._kept)
            if n_places != (self._n_owners[block] == 0):
                problems.append(
                    f"block {block} with {self._n_owners[block]} owners is {n_places} times free"
                )
            if (free[block] and block in self.index) or (
                block in self._kept and block not in self.index
            ):
                problems.append(f"block {block} is free, but entered, or kept, but not entered")
        return problems
