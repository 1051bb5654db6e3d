"""Continuous batching: which sequences run in the next step, and with how many tokens.

Every step is filled anew. First each resident sequence that has one token to run (decoding), oldest
first; then longer stretches (prompts, forced separators, recomputation) in chunks, while the step
budget lasts; an adaptive step takes no more of these than measured costs allow. Admission is first
come, first served: nobody overtakes a sequence that waits for memory, or for sequences of another
mode to end. When a resident sequence cannot grow, the youngest one is evicted; it keeps its tokens,
goes back to its place in the line, and is recomputed.
Not here: running the step (`model_runner`), or time (`engine`).
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from harness.server.adaptive_batching import Allowance, StepCosts, allow_prefill
from harness.server.failing_cache import FailingCache
from harness.server.kv_arena import ContiguousCache, KvArena, KvCache, PagedCache
from harness.server.sequence import BASELINE

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from harness.server.sequence import Layout, Mode, Sequence

Obstacle = Literal["slot", "memory", "mode"]


class Chunk(NamedTuple):
    """Part of a step: the next `n_tokens` uncomputed tokens of a sequence."""

    sequence: Sequence
    n_tokens: int

    @property
    def completes_context(self) -> bool:
        """Whether a new token is drawn after this chunk."""
        return self.n_tokens == self.sequence.n_pending


class Schedule(NamedTuple):
    """One step: what runs, and why the rest does not.

    Attributes:
        chunks: Those of one token first, then longer ones.
        stalled: Resident sequences without a share of this step.
        kv_waiting: Waiting with a free slot, without memory.
        queued: Waiting for a slot, or for sequences of another mode to end.
    """

    chunks: list[Chunk]
    stalled: list[Sequence]
    kv_waiting: list[Sequence]
    queued: list[Sequence]


class Scheduler:
    """Decides; owns the line of waiting sequences and the set of resident ones."""

    def __init__(
        self,
        arena: KvArena,
        *,
        max_num_seqs: int,
        max_num_batched_tokens: int,
        alloc_every: int | None = None,
    ) -> None:
        self._paged: Final[dict[Layout, PagedCache]] = {
            "paged": PagedCache(arena.n_slots),
            "packed": PagedCache(arena.n_packed_slots),
        }
        caches: dict[Layout, KvCache] = {
            "contiguous": ContiguousCache(arena),
            **self._paged,
        }
        self._caches: Final[dict[Layout, KvCache]] = {
            layout: cache if alloc_every is None else FailingCache(cache, alloc_every)
            for layout, cache in caches.items()
        }
        self._max_num_seqs = max_num_seqs
        self._budget = max_num_batched_tokens
        self.mode = BASELINE
        self.waiting: list[Sequence] = []
        self.resident: list[Sequence] = []
        self.costs = StepCosts()
        self._allowance = Allowance(self._budget, self._budget)
        self.n_evictions = 0
        self.n_cache_queries = 0
        self.n_cache_hits = 0

    @property
    def has_work(self) -> bool:
        """Whether any sequence is unfinished."""
        return bool(self.waiting or self.resident)

    @property
    def next_mode(self) -> Mode:
        """The mode of the next step."""
        return self.waiting[0].mode if self.waiting and not self.resident else self.mode

    @property
    def _cache(self) -> KvCache:
        """The layout that has the arena."""
        return self._caches[self.mode.layout]

    @property
    def n_held(self) -> int:
        """Arena slots in the hands of resident sequences."""
        return self._cache.n_held

    @property
    def n_kept(self) -> int:
        """Arena slots without an owner that the prefix cache can still find."""
        return sum(cache.n_kept for cache in self._paged.values())

    def add(self, sequence: Sequence) -> None:
        """Put a sequence into the line at its arrival order."""
        insort(self.waiting, sequence, key=_order)

    def remove(self, sequence: Sequence) -> None:
        """Take out a finished or cancelled sequence and free its memory."""
        if sequence in self.waiting:
            self.waiting.remove(sequence)
        else:
            self.resident.remove(sequence)
            self._cache.release(sequence)

    def schedule(self) -> Schedule:
        """Fill one step."""
        n_evictions_before = self.n_evictions
        chunks: dict[Sequence, int] = {}
        self._allow_prefill()
        budget = self._fill(chunks, self._budget)
        # Whoever was just evicted to make room must not take that room back in the same step.
        if self.n_evictions == n_evictions_before:
            obstacle = self._admit()
            self._fill(chunks, budget)
        else:
            obstacle = "memory"
        stalled = [sequence for sequence in self.resident if sequence not in chunks]
        n_kv_waiting = self._max_num_seqs - len(self.resident) if obstacle == "memory" else 0
        return Schedule(
            sorted(
                (Chunk(*share) for share in chunks.items()), key=lambda chunk: chunk.n_tokens > 1
            ),
            stalled,
            self.waiting[:n_kv_waiting],
            self.waiting[n_kv_waiting:],
        )

    def _allow_prefill(self) -> None:
        """Choose this step's share of prefill, by the costs measured so far."""
        if self.mode.is_adaptive:
            n_decode = sum(1 for sequence in self.resident if sequence.n_pending == 1)
            self._allowance = allow_prefill(
                self.costs.estimate(), n_decode=n_decode, budget=self._budget
            )
        else:
            self._allowance = Allowance(self._budget, self._budget)

    def _fill(self, chunks: dict[Sequence, int], budget: int) -> int:
        """Give tokens of the step to resident sequences; return what is left of the budget."""
        left = [sequence for sequence in self.resident if sequence not in chunks]
        decoding = [sequence for sequence in left if sequence.n_pending == 1]
        longer = [sequence for sequence in left if sequence.n_pending > 1]
        for sequence in decoding + longer:
            if budget == 0:
                break
            if not sequence.holding:  # evicted for an older one, moments ago
                continue
            n_tokens = min(sequence.n_pending, budget)
            if sequence.n_pending > 1:
                n_prefill = _n_prefill(chunks)
                if n_prefill >= self._allowance.enough:
                    break
                n_tokens = min(n_tokens, self._allowance.most - n_prefill)
            if self._make_room(sequence, sequence.n_computed + n_tokens, chunks):
                chunks[sequence] = n_tokens
                budget = self._budget - sum(chunks.values())
        return budget

    def _admit(self) -> Obstacle:
        """Move sequences from the line into the batch; return what stopped it."""
        while self.waiting:
            if len(self.resident) == self._max_num_seqs:
                return "slot"
            head = self.waiting[0]
            if head.mode != self.mode:
                if self.resident:
                    return "mode"
                self._change_mode(head.mode)
            if not self._cache.reserve(head):
                return "memory"
            if head.n_evictions == 0:
                head.n_cached = head.n_computed
                self.n_cache_queries += head.n_prompt if self.mode.has_prefix_cache else 0
                self.n_cache_hits += head.n_cached
            self.waiting.pop(0)
            insort(self.resident, head, key=_order)
        return "slot"

    def _change_mode(self, mode: Mode) -> None:
        """Let an empty arena run the next mode; its layout will overwrite what others keep."""
        for layout, cache in self._paged.items():
            if layout != mode.layout:
                cache.forget_all()
        self.mode = mode
        self._allow_prefill()

    def advance(self, chunks: AbstractSequence[Chunk], seconds: float) -> None:
        """Book a step that has been run in so many seconds; full blocks become findable."""
        if self.mode.is_adaptive:
            n_decode = sum(1 for chunk in chunks if chunk.n_tokens == 1)
            n_prefill = sum(chunk.n_tokens for chunk in chunks) - n_decode
            self.costs.observe(n_prefill, n_decode, seconds)
        for sequence, n_tokens in chunks:
            sequence.n_computed += n_tokens
            if self.mode.has_prefix_cache:
                self._paged[self.mode.layout].enter(sequence)

    def _make_room(self, sequence: Sequence, n_tokens: int, chunks: dict[Sequence, int]) -> bool:
        """Grow a sequence, evicting the youngest until it fits or is itself the youngest."""
        while not self._cache.grow(sequence, n_tokens):
            victim = self.resident[-1]
            self._evict(victim)
            chunks.pop(victim, None)
            if victim is sequence:
                return False
        return True

    def _evict(self, victim: Sequence) -> None:
        """Take a sequence's memory; its tokens stay and are recomputed later."""
        self._cache.release(victim)
        self.resident.remove(victim)
        victim.n_computed = 0
        victim.n_evictions += 1
        self.n_evictions += 1
        self.add(victim)

    def evict_all(self) -> None:
        """Take everybody's memory: a planted fault."""
        for victim in list(self.resident):
            self._evict(victim)

    def check_integrity(self) -> list[str]:
        """Name everything about lines and memory that does not add up."""
        problems = []
        for layout, cache in self._caches.items():
            holders = self.resident if layout == self.mode.layout else []
            problems += [f"{layout}: {text}" for text in cache.check_integrity(holders)]
        problems += [
            f"sequence {sequence.id} waits and holds KV"
            for sequence in self.waiting
            if sequence.holding
        ]
        problems += [
            f"sequence {sequence.id} has {sequence.n_computed} computed in {sequence.n_slots} slots"
            for sequence in self.resident
            if sequence.n_computed > sequence.n_slots
        ]
        if len(self.resident) > self._max_num_seqs:
            problems.append(f"{len(self.resident)} resident, {self._max_num_seqs} allowed")
        return problems


def _n_prefill(chunks: dict[Sequence, int]) -> int:
    """Tokens of sequences that do not decode."""
    return sum(n_tokens for sequence, n_tokens in chunks.items() if sequence.n_pending > 1)


def _order(sequence: Sequence) -> int:
    return sequence.order
