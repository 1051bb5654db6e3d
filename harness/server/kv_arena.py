"""The KV arena: one block of memory that every path lays its sequences out in.

`KvArena` is the tensor. `ContiguousCache` (baseline) and `PagedCache` (`paged_kv`, `packed_state`)
decide which slots a sequence gets and write them to `sequence.slots`; the model runner reads
nothing else. The arena belongs to one cache at a time, and only an empty one changes hands
(`scheduler`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from harness.server.block_manager import BLOCK_SIZE, BlockManager, blocks_for
from harness.server.contiguous import RangeAllocator, capacity_for
from harness.server.kv_layer import KvLayer, PackedLayer, PlainLayer
from harness.server.prefix_cache import ROOT
from kernels.kv_record import record_size

if TYPE_CHECKING:
    from torch import Tensor

    from harness.server.model_config import ModelConfig
    from harness.server.sequence import Layout, Sequence


class KvArena:
    """Keys and values of `n_slots` tokens in every layer, of the dtype and on the device of `like`.

    The same bytes hold `n_packed_slots` tokens as packed records: several times as many.

    Shapes: `layers` (n_layers, n_slots, 2, n_kv_heads, head_dim): key and value side by side, so
        that one gather fetches both; `records` (n_layers, n_packed_slots, n_kv_heads, record_size).
    """

    def __init__(self, config: ModelConfig, n_slots: int, *, like: Tensor) -> None:
        shape = (config.n_layers, n_slots, 2, config.n_kv_heads, config.head_dim)
        self.n_slots = n_slots
        self.layers: Tensor = torch.zeros(shape, dtype=like.dtype, device=like.device)
        self.records = self._pack()
        self.n_packed_slots = self.records.shape[1]

    def _pack(self) -> Tensor:
        """See the same memory as whole blocks of packed records."""
        n_layers, _, _, n_kv_heads, head_dim = self.layers.shape
        data = self.layers.view(torch.uint8).view(n_layers, -1)
        token = n_kv_heads * record_size(head_dim)
        n_slots = data.shape[1] // token // BLOCK_SIZE * BLOCK_SIZE
        return data[:, : n_slots * token].view(n_layers, n_slots, n_kv_heads, -1)

    def layers_of(self, layout: Layout) -> list[KvLayer]:
        """Give every layer as one layout keeps it."""
        if layout == "packed":
            head_dim = self.layers.shape[-1]
            return [PackedLayer(each, head_dim) for each in self.records.unbind(0)]
        return [PlainLayer(each) for each in self.layers.unbind(0)]

    def move(self, source: int, target: int, n_tokens: int) -> None:
        """Copy the first `n_tokens` of a range to another that does not overlap it."""
        self.layers[:, target : target + n_tokens] = self.layers[:, source : source + n_tokens]


class KvCache(Protocol):
    """How sequences are laid out in the arena."""

    def grow(self, sequence: Sequence, n_tokens: int) -> bool:
        """Make room for `n_tokens` of the sequence; on False nothing has changed."""

    def reserve(self, sequence: Sequence) -> bool:
        """Make room for the whole present context of a sequence that has none."""

    def release(self, sequence: Sequence) -> None:
        """Take all slots back."""

    @property
    def n_held(self) -> int:
        """Arena slots in the hands of sequences, each counted once."""

    def check_integrity(self, sequences: list[Sequence]) -> list[str]:
        """Name everything that does not add up; `sequences` are all that hold slots."""


class ContiguousCache:
    """One range per sequence, doubled when full: allocate the larger, copy, free the smaller."""

    def __init__(self, arena: KvArena) -> None:
        self._arena = arena
        self._ranges = RangeAllocator(arena.n_slots)

    def reserve(self, sequence: Sequence) -> bool:
        """Take a range for the present context and the token that follows it."""
        return self.grow(sequence, len(sequence.tokens) + 1)

    def grow(self, sequence: Sequence, n_tokens: int) -> bool:
        """Move the sequence to a doubled range when the present one is too short."""
        if n_tokens <= sequence.n_slots:
            return True
        capacity = capacity_for(n_tokens)
        start = self._ranges.allocate(capacity)
        if start is None:
            return False
        if sequence.holding:
            self._arena.move(sequence.holding[0], start, sequence.n_computed)
            self._ranges.free(sequence.holding[0])
        sequence.holding = [start]
        sequence.slots = np.arange(start, start + capacity, dtype=np.int64)
        sequence.n_slots = capacity
        return True

    def release(self, sequence: Sequence) -> None:
        """Free the range."""
        for start in sequence.holding:
            self._ranges.free(start)
        sequence.holding = []
        sequence.n_slots = 0

    @property
    def n_held(self) -> int:
        """Slots of all ranges, used or not."""
        return self._arena.n_slots - self._ranges.n_free

    def check_integrity(self, sequences: list[Sequence]) -> list[str]:
        """Check the ranges and that exactly these sequences hold them."""
        problems = self._ranges.check_integrity()
        held = sum(sequence.n_slots for sequence in sequences)
        if held != self.n_held:
            problems.append(f"{held} slots held, {self._ranges.n_free} free, sum is wrong")
        return problems


class PagedCache:
    """A table of blocks per sequence, one more when the last is full; nothing is ever copied.

    With `prefix_cache`, full blocks stay findable by their tokens, and a new sequence begins with
    those that hold the beginning of its context. Nobody writes into a full block, so none is copied
    for being shared.
    """

    def __init__(self, n_slots: int) -> None:
        self._blocks = BlockManager(n_slots // BLOCK_SIZE)

    @property
    def n_kept(self) -> int:
        """Slots of blocks without an owner that a later prompt could still use."""
        return self._blocks.n_kept * BLOCK_SIZE

    def reserve(self, sequence: Sequence) -> bool:
        """Take blocks for the present context, those of a known prefix first."""
        if sequence.mode.has_prefix_cache:
            self._take_prefix(sequence)
        if self.grow(sequence, len(sequence.tokens)):
            return True
        self.release(sequence)
        sequence.n_computed = 0
        return False

    def _take_prefix(self, sequence: Sequence) -> None:
        """Share the blocks that hold the beginning; the last token is always computed anew."""
        found = self._blocks.index.match(sequence.tokens[:-1])
        if not found:
            return
        blocks = [entry.block for entry in found]
        self._blocks.share(blocks)
        self._append(sequence, blocks)
        sequence.n_computed = sequence.n_slots
        sequence.n_entered = len(found)
        sequence.chain = found[-1].serial

    def enter(self, sequence: Sequence) -> None:
        """Make the blocks findable that are full of computed keys and values."""
        for number in range(sequence.n_entered, sequence.n_computed // BLOCK_SIZE):
            begin = number * BLOCK_SIZE
            sequence.chain = self._blocks.index.enter(
                sequence.chain,
                sequence.tokens[begin : begin + BLOCK_SIZE],
                sequence.holding[number],
            )
            sequence.n_entered = number + 1

    def forget_all(self) -> None:
        """Keep nothing: the arena goes to another layout."""
        self._blocks.forget_all()

    def grow(self, sequence: Sequence, n_tokens: int) -> bool:
        """Append the blocks that are missing."""
        n_missing = blocks_for(n_tokens) - len(sequence.holding)
        if n_missing <= 0:
            return True
        blocks = self._blocks.allocate(n_missing)
        if blocks is None:
            return False
        self._append(sequence, blocks)
        return True

    def _append(self, sequence: Sequence, blocks: list[int]) -> None:
        """Put blocks at the end of a sequence's table."""
        first = np.array(blocks, dtype=np.int64)[:, None] * BLOCK_SIZE
        added = (first + np.arange(BLOCK_SIZE, dtype=np.int64)).ravel()
        sequence.slots = np.concatenate((sequence.slots[: sequence.n_slots], added))
        sequence.holding += blocks
        sequence.n_slots += len(added)

    def release(self, sequence: Sequence) -> None:
        """Let go of every block, the last first: a prefix outlives what follows it."""
        self._blocks.release(reversed(sequence.holding))
        sequence.holding = []
        sequence.n_slots = 0
        sequence.n_entered = 0
        sequence.chain = ROOT

    @property
    def n_held(self) -> int:
        """Slots of all blocks with an owner, shared or not."""
        return (self._blocks.n_blocks - self._blocks.n_free) * BLOCK_SIZE

    def check_integrity(self, sequences: list[Sequence]) -> list[str]:
        """Check the blocks against the sequences' tables, and what is entered against tokens."""
        problems = self._blocks.check_integrity([sequence.holding for sequence in sequences])
        for sequence in sequences:
            for number, block in enumerate(sequence.holding):
                begin = number * BLOCK_SIZE
                entered = self._blocks.index.tokens_of(block)
                if entered not in {None, tuple(sequence.tokens[begin : begin + BLOCK_SIZE])}:
                    problems.append(f"sequence {sequence.id} holds block {block} of other tokens")
        return problems
