"""Decode steps of the engine, alone in this process: no front, no socket.

A block adds a full batch, reads the prompts, and times the steps in which every sequence decodes:
schedule, model, draw, books. Then it cancels the batch. Clock: processor time of the process.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

from harness.server.accel import mode_of, read_features
from harness.server.contiguous import capacity_for
from harness.server.engine import Engine
from harness.server.options import ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import SamplingParams, Segment, Sequence

if TYPE_CHECKING:
    from harness.server.engine import StepEvents
    from harness.server.model import Llama
    from tools.bench_server.batch import Batch

PATHS: Final = {"baseline": read_features("false"), "accelerated": read_features("true")}
GREEDY: Final = SamplingParams(temperature=0.0, ignore_eos=True)
_N_APART: Final = 64
"""Steps between the first sequence's first token and the last one's, at most."""
_CONTROL_IDS: Final = [0, 2, 3]
_STOP_IDS: Final = [1, 4]


class ProcessorWatch(Stopwatch):
    """A stopwatch that runs only while this process does."""

    @staticmethod
    def now() -> int:
        """Give the present stamp."""
        return time.process_time_ns()

    def lap(self, phase: str) -> int:
        """Charge the processor time since the last lap."""
        now = self.now()
        self.laps_ns[phase] = self.laps_ns.get(phase, 0) + now - self.last_ns
        self.last_ns = now
        return now


class EngineDecode:
    """An engine with room for one batch."""

    def __init__(
        self,
        model: Llama,
        features: tuple[str, ...],
        batch: Batch,
        params: SamplingParams = GREEDY,
    ) -> None:
        self._n_steps, self._n_tokens = batch.n_steps, batch.n_steps + _N_APART
        options = ServerOptions(
            max_num_seqs=batch.n_seqs,
            kv_tokens=(batch.n_seqs + 1) * capacity_for(batch.context + self._n_tokens),
            max_num_batched_tokens=max(512, batch.n_seqs * batch.context),
            threads=1,
        )
        self.engine = Engine(
            model,
            options,
            max_model_len=model.config.max_context,
            control_ids=_CONTROL_IDS,
            stop_ids=_STOP_IDS,
        )
        self._mode, self._params = mode_of(features), params
        self._watch = ProcessorWatch(GcPauses(), ProcessorWatch.now())
        self._next_id = 0
        self._prompts = batch.prompts()

    def __call__(self) -> float:
        """Time one block; give the median step in seconds."""
        self._add_batch()
        self._watch.restart(self._watch.now())
        seconds: list[float] = []
        while len(seconds) < self._n_steps:
            events, spent = self.step()
            if self._is_decode(events):
                seconds.append(spent)
        for sequence_id in range(self._next_id, self._next_id - len(self._prompts), -1):
            self.engine.cancel(sequence_id)
        self.engine.step(self._watch)
        return statistics.median(seconds)

    def step(self) -> tuple[StepEvents, float]:
        """Run one step; tell what it cost."""
        began = time.process_time()
        events = self.engine.step(self._watch)
        spent = time.process_time() - began
        self._watch.restart(events.until_ns)
        return events, spent

    def _add_batch(self) -> None:
        for tokens in self._prompts:
            self._next_id += 1
            self.engine.add(
                Sequence(
                    id=self._next_id,
                    order=self._next_id,
                    mode=self._mode,
                    tokens=list(tokens),
                    segments=(Segment(kind="content", n_tokens=self._n_tokens),),
                    params=self._params,
                    charged_until_ns=ProcessorWatch.now(),
                    n_accounts=1,
                )
            )

    def _is_decode(self, events: StepEvents) -> bool:
        """Whether the whole batch decoded: first tokens carry accounts, and last ones ends."""
        tokens = events.tokens
        is_full = len(tokens) == len(self._prompts) and not events.ends
        return is_full and all(token.account is None for token in tokens)
