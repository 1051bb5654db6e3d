import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    rule,
)

from harness.server.block_manager import BLOCK_SIZE, BlockManager
from harness.server.contiguous import RangeAllocator, capacity_for
from harness.server.kv_arena import KvArena
from harness.server.model_config import ModelConfig
from harness.server.prefix_cache import ROOT
from harness.server.scheduler import Chunk, Scheduler
from harness.server.sequence import BASELINE, Mode, SamplingParams, Segment, Sequence

N_SLOTS = 512
MODES = [
    BASELINE,
    Mode(is_adaptive=True),
    Mode(layout="paged"),
    *[Mode(layout="paged", has_prefix_cache=True)] * 4,
    Mode(layout="paged", has_prefix_cache=True, is_adaptive=True),
]


class Ranges(RuleBasedStateMachine):
    """Contiguous ranges tile the arena exactly, whatever is allocated and freed."""

    starts = Bundle("starts")

    def __init__(self) -> None:
        super().__init__()
        self.allocator = RangeAllocator(N_SLOTS)
        self.taken: dict[int, int] = {}

    @rule(target=starts, length=st.integers(1, 200))
    def allocate(self, length: int) -> int:
        """Take a range; a refusal must mean that no gap was long enough."""
        start = self.allocator.allocate(length)
        if start is None:
            edges = sorted([*self.taken.items(), (N_SLOTS, 0)])
            gaps, edge = [], 0
            for begin, size in edges:
                gaps.append(begin - edge)
                edge = begin + size
            assert max(gaps) < length
            return -1
        for begin, size in self.taken.items():
            assert start + length <= begin or begin + size <= start
        self.taken[start] = length
        return start

    @rule(start=consumes(starts))
    def free(self, start: int) -> None:
        """Return a range."""
        if start >= 0:
            self.allocator.free(start)
            del self.taken[start]

    @invariant()
    def adds_up(self) -> None:
        """The books are right after every command."""
        assert self.allocator.check_integrity() == []
        assert self.allocator.n_free == N_SLOTS - sum(self.taken.values())


class Blocks(RuleBasedStateMachine):
    """Blocks are conserved and counted right, whatever is allocated, shared, kept and released."""

    tables = Bundle("tables")

    def __init__(self) -> None:
        super().__init__()
        self.manager = BlockManager(24)
        self.held: list[list[int]] = []

    @rule(target=tables, count=st.integers(0, 10))
    def allocate(self, count: int) -> list[int]:
        """Take blocks; a refusal must mean that too few were free."""
        n_free, n_kept = self.manager.n_free, self.manager.n_kept
        blocks = self.manager.allocate(count)
        if blocks is not None:  # kept blocks are given up only when no other is left
            assert self.manager.n_kept == n_kept - max(0, count - (n_free - n_kept))
        assert (blocks is None) == (count > n_free)
        table = blocks or []
        self.held.append(table)
        return table

    @rule(target=tables, table=tables, length=st.integers(0, 10))
    def share_prefix(self, table: list[int], length: int) -> list[int]:
        """Let another table own the beginning of a living one."""
        if not any(table is owned for owned in self.held):
            return []
        shared = table[:length]
        self.manager.share(shared)
        self.held.append(shared)
        return shared

    @rule(table=tables, token=st.integers(0, 2), length=st.integers(1, 6))
    def enter(self, table: list[int], token: int, length: int) -> None:
        """Make the beginning of a living table findable under a text of one token."""
        if not any(table is owned for owned in self.held):
            return
        serial = ROOT
        for block in table[:length]:
            if block in self.manager.index:
                return
            serial = self.manager.index.enter(serial, [token] * BLOCK_SIZE, block)

    @rule(target=tables, token=st.integers(0, 2), n_tokens=st.integers(0, 100))
    def share_found(self, token: int, n_tokens: int) -> list[int]:
        """Own what the index finds, kept or held by others."""
        found = self.manager.index.match([token] * n_tokens)
        blocks = [entry.block for entry in found]
        assert len(blocks) <= n_tokens // BLOCK_SIZE
        for block in blocks:
            assert self.manager.index.tokens_of(block) == (token,) * BLOCK_SIZE
        self.manager.share(blocks)
        self.held.append(blocks)
        return blocks

    @rule()
    def forget_all(self) -> None:
        """Give up everything that is kept, at a moment when nothing is held."""
        if not any(self.held):
            self.manager.forget_all()
            assert self.manager.n_kept == 0
            assert self.manager.n_free == self.manager.n_blocks

    @rule(table=consumes(tables))
    def release(self, table: list[int]) -> None:
        """Drop a table."""
        for index, owned in enumerate(self.held):
            if owned is table:
                self.manager.release(table)
                del self.held[index]
                return

    @invariant()
    def adds_up(self) -> None:
        """The books are right after every command."""
        assert self.manager.check_integrity(self.held) == []


class Contents(KvArena):
    """An arena that knows of each slot which context its keys and values stand for."""

    def __init__(self) -> None:
        config = ModelConfig(n_layers=1, n_heads=1, n_kv_heads=1, head_dim=2)
        super().__init__(config, N_SLOTS, like=torch.empty(0))
        self.contexts = [-1] * N_SLOTS

    def move(self, source: int, target: int, n_tokens: int) -> None:
        """Move what is known along."""
        self.contexts[target : target + n_tokens] = self.contexts[source : source + n_tokens]


class Scheduling(RuleBasedStateMachine):
    """No command sequence makes the scheduler lose memory, overtake, or stop making progress.

    Nor does one let a sequence read keys and values that are not those of its own context, however
    blocks are shared, kept and given up.
    """

    def __init__(self) -> None:
        super().__init__()
        self.arena = Contents()
        self.scheduler = Scheduler(self.arena, max_num_seqs=4, max_num_batched_tokens=64)
        self.goals: dict[Sequence, int] = {}
        self.n_added = 0
        self.contexts: dict[tuple[int, int], int] = {}

    @rule(
        n_shared=st.sampled_from((0, 40, 144)),
        n_own=st.sampled_from((1, 16, 90)),
        text=st.integers(0, 1),
        n_output=st.integers(1, 60),
        mode=st.sampled_from(MODES),
    )
    def add(self, n_shared: int, n_own: int, text: int, n_output: int, mode: Mode) -> None:
        """Put in a sequence that could run alone; its beginning is one of two texts."""
        n_prompt = n_shared + n_own
        if capacity_for(n_prompt + n_output) > N_SLOTS:
            return
        self.n_added += 1
        sequence = Sequence(
            id=self.n_added,
            order=self.n_added,
            mode=mode,
            tokens=[text] * n_shared + [3] * n_own,
            segments=(Segment(kind="content", n_tokens=n_output),),
            params=SamplingParams(),
            charged_until_ns=0,
        )
        self.goals[sequence] = n_prompt + n_output
        self.scheduler.add(sequence)

    @rule(n_steps=st.integers(1, 20))
    def step(self, n_steps: int) -> None:
        """Run a few steps."""
        for _ in range(n_steps):
            self._step()

    def _step(self) -> None:
        schedule = self.scheduler.schedule()
        groups = [
            [chunk.sequence for chunk in schedule.chunks],
            schedule.stalled,
            schedule.kv_waiting,
            schedule.queued,
        ]
        assert sorted(one.order for group in groups for one in group) == sorted(
            one.order for one in self.goals
        )
        assert sum(chunk.n_tokens for chunk in schedule.chunks) <= 64
        lengths = [chunk.n_tokens > 1 for chunk in schedule.chunks]
        assert lengths == sorted(lengths)
        self._compute(schedule.chunks)
        for chunk in schedule.chunks:
            sequence = chunk.sequence
            assert chunk.n_tokens > 0
            assert sequence.n_computed + chunk.n_tokens <= sequence.n_slots
            used = sequence.slots[: sequence.n_computed + chunk.n_tokens]
            assert len(set(used.tolist())) == len(used)
            is_complete = chunk.completes_context
            # Any cost may have been measured, an absurd one too.
            self.scheduler.advance([chunk], seconds=0.001 * (self.n_added % 5) ** 4)
            if is_complete:
                sequence.tokens.append(0)
            if len(sequence.tokens) == self.goals[sequence]:
                self._remove(sequence)
        assert self.scheduler.check_integrity() == []

    def _compute(self, chunks: list[Chunk]) -> None:
        """Write as the model would, then let every chunk read its whole context."""
        ends = [chunk.sequence.n_computed + chunk.n_tokens for chunk in chunks]
        contexts = [self._contexts(chunk.sequence.tokens) for chunk in chunks]
        for chunk, end, own in zip(chunks, ends, contexts, strict=True):
            for position in range(chunk.sequence.n_computed, end):
                self.arena.contexts[int(chunk.sequence.slots[position])] = own[position]
        for chunk, end, own in zip(chunks, ends, contexts, strict=True):
            read = [self.arena.contexts[slot] for slot in chunk.sequence.slots[:end].tolist()]
            assert read == own[:end]

    def _contexts(self, tokens: list[int]) -> list[int]:
        """Number every beginning of the tokens; equal beginnings have equal numbers."""
        numbers, context = [], -1
        for token in tokens:
            context = self.contexts.setdefault((context, token), len(self.contexts))
            numbers.append(context)
        return numbers

    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        """Take any sequence out."""
        if self.goals:
            self._remove(data.draw(st.sampled_from(sorted(self.goals, key=lambda one: one.order))))

    def _remove(self, sequence: Sequence) -> None:
        self.scheduler.remove(sequence)
        del self.goals[sequence]

    @invariant()
    def adds_up(self) -> None:
        """The books are right after every command."""
        assert self.scheduler.check_integrity() == []

    def teardown(self) -> None:
        """Whatever is left runs to its end."""
        for _ in range(20_000):
            if not self.scheduler.has_work:
                break
            self._step()
        assert not self.scheduler.has_work
        assert self.scheduler.n_held == 0


for machine in (Ranges, Blocks, Scheduling):
    machine.TestCase.settings = settings(max_examples=60, stateful_step_count=30)

TestRanges = Ranges.TestCase
TestBlocks = Blocks.TestCase
TestScheduling = Scheduling.TestCase
