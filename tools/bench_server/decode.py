"""Decode: an engine's step against the bare model's, and a penalised step against a plain one."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

import torch

from harness.server.matrix import Matrix
from harness.server.sequence import SamplingParams
from tools.bench_server.bare_model import BareModel, plain
from tools.bench_server.batch import Batch
from tools.bench_server.engine_decode import GREEDY, PATHS, EngineDecode
from tools.bench_server.ratio import ratio, time_in_turns
from tools.bench_server.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.server.model import Llama
    from tools.bench_server.effort import Effort

DRAWN: Final = SamplingParams(temperature=1.0, ignore_eos=True)
STRENGTHS: Final = (1.1, 0.2, 0.2)
"""Repetition, frequency, presence."""


class BareDecode:
    """The bare model over the same batch; every block decodes from the same context."""

    def __init__(
        self,
        model: Llama,
        prepare: Callable[[torch.Tensor], Callable[[torch.Tensor], torch.Tensor]],
        batch: Batch,
    ) -> None:
        longest = batch.context + batch.n_steps
        self._bare = BareModel(model, prepare, n_seqs=batch.n_seqs, longest=longest)
        self._prompts = torch.tensor(batch.prompts())
        self._n_steps = batch.n_steps

    def __call__(self) -> float:
        """Time one block; give the median step in seconds."""
        self._bare.n_computed = 0
        with torch.inference_mode():
            token_ids = self._bare.run(self._prompts)
            seconds = []
            for _ in range(self._n_steps):
                began = time.process_time()
                token_ids = self._bare.run(token_ids[:, None])
                token_ids.tolist()
                seconds.append(time.process_time() - began)
        return statistics.median(seconds)


def compare_decode(
    model: Llama, batches: Sequence[int], contexts: Sequence[int], effort: Effort
) -> Table:
    """Time both paths against the bare model, with torch's product and with the server's own."""
    table = Table(
        "decode",
        "A decode step over the bare torch forward of the same batch; below 1 is faster.",
        ("batch", "context", "path", "bare us", "step us", "ratio", "ratio, same products"),
    )
    for context, n_seqs in product(contexts, batches):
        batch = Batch(n_seqs, context, effort.n_steps)
        bare = {
            "bare": BareDecode(model, plain, batch),
            "bare, server's products": BareDecode(model, Matrix, batch),
        }
        engines = {path: EngineDecode(model, features, batch) for path, features in PATHS.items()}
        times = time_in_turns({**bare, **engines}, effort.n_blocks)
        for path in engines:
            table.add(
                n_seqs,
                context,
                path,
                statistics.median(times["bare"]) * 1e6,
                statistics.median(times[path]) * 1e6,
                *(ratio(times[path], times[name]) for name in bare),
            )
    return table


def compare_penalties(model: Llama, batches: Sequence[int], context: int, effort: Effort) -> Table:
    """Time a step with all penalties against one without, greedy and drawn, on both paths."""
    table = Table(
        "penalties",
        f"A decode step with all penalties over one without; {context} tokens of context.",
        ("batch", "tokens are", "path", "without us", "with us", "ratio"),
    )
    for n_seqs, (kind, params) in product(batches, {"greedy": GREEDY, "drawn": DRAWN}.items()):
        batch = Batch(n_seqs, context, effort.n_steps)
        engines = {
            (path, is_on): EngineDecode(model, features, batch, strength)
            for path, features in PATHS.items()
            for is_on, strength in ((False, params), (True, _penalised(params)))
        }
        times = time_in_turns(engines, effort.n_blocks)
        for path in PATHS:
            off, on = times[path, False], times[path, True]
            medians = (statistics.median(each) * 1e6 for each in (off, on))
            table.add(n_seqs, kind, path, *medians, ratio(on, off))
    return table


def _penalised(params: SamplingParams) -> SamplingParams:
    repetition, frequency, presence = STRENGTHS
    return replace(params, repetition=repetition, frequency=frequency, presence=presence)
