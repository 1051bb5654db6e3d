"""Prefix index: finds KV blocks by the tokens in them and by all tokens before.

What `prefix_cache` looks prompts up in. A full block is entered under (serial number of the block
before it, its own tokens); the dictionary hashes that pair, so hashes are chained, and compares it
on a hit, so a collision of hashes can give no wrong block. A serial number is never used again:
what followed a forgotten block can no longer be reached. Book-keeping only; who owns a block, and
which is given up first, is `block_manager`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT: Final = 0
"""Stands for the block before the first."""


class Key(NamedTuple):
    """What a block is found by."""

    parent: int
    tokens: tuple[int, ...]


class Entry(NamedTuple):
    """A block and the serial number that its successors name as their parent."""

    block: int
    serial: int


class PrefixIndex:
    """Chains of full blocks of `block_size` tokens each."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._entries: dict[Key, Entry] = {}
        self._keys: dict[int, Key] = {}
        self._last_serial = ROOT

    def __contains__(self, block: int) -> bool:
        """Whether a block is entered."""
        return block in self._keys

    def match(self, tokens: Sequence[int]) -> list[Entry]:
        """Give the longest chain of entered blocks that holds the beginning of `tokens`."""
        found: list[Entry] = []
        parent = ROOT
        for begin in range(0, len(tokens) - self._block_size + 1, self._block_size):
            key = Key(parent, tuple(tokens[begin : begin + self._block_size]))
            entry = self._entries.get(key)
            if entry is None:
                break
            found.append(entry)
            parent = entry.serial
        return found

    def enter(self, parent: int, tokens: Sequence[int], block: int) -> int:
        """Enter a full block behind `parent`; return the serial number its successors name.

        Where another block with the same tokens stands already, that one stays.
        """
        key = Key(parent, tuple(tokens))
        entry = self._entries.get(key)
        if entry is None:
            assert block not in self._keys
            self._last_serial += 1
            entry = self._entries[key] = Entry(block, self._last_serial)
            self._keys[block] = key
        return entry.serial

    def forget(self, block: int) -> None:
        """Take a block out, if it is entered."""
        key = self._keys.pop(block, None)
        if key is not None:
            del self._entries[key]

    def tokens_of(self, block: int) -> tuple[int, ...] | None:
        """Give the tokens an entered block was entered with."""
        key = self._keys.get(block)
        return None if key is None else key.tokens

    def check_integrity(self) -> list[str]:
        """Name every block that is not found by exactly what it was entered under."""
        problems = [
            f"block {block} is entered, but not found by its key"
            for block, key in self._keys.items()
            if key not in self._entries or self._entries[key].block != block
        ]
        if len(self._entries) != len(self._keys):
            problems.append(f"{len(self._entries)} keys for {len(self._keys)} blocks")
        return problems
