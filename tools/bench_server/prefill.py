"""Time to the first token of an idle server, on the client's clock, against the bare prefill.

The client opens a connection, sends token ids and reads until the first event; nothing else is in
flight, and no two prompts are alike. The bare model reads as many tokens in this process.
Clock: the wall, so read the ratio with its interval; other work on the machine widens it.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Final

import numpy as np
import torch

from harness.server.matrix import Matrix
from harness.server.options import ServerOptions
from harness.server.process import start_server
from tools.bench_server.bare_model import BareModel, plain
from tools.bench_server.engine_decode import PATHS
from tools.bench_server.event_streams import EventStreams
from tools.bench_server.ratio import ratio, time_in_turns
from tools.bench_server.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from harness.server.model import Llama
    from tools.bench_server.effort import Effort

N_CALLS: Final = 5
"""Prompts a block; the block's figure is their median."""


def compare_prefill(model: Llama, contexts: Sequence[int], effort: Effort) -> Table:
    """Time first tokens of both paths against the bare model's."""
    table = Table(
        "prefill",
        "Time to the first token of an idle server over the bare prefill; wall time.",
        ("prompt", "path", "bare ms", "server ms", "ratio", "ratio, same products"),
    )
    random = np.random.default_rng(1)
    options = ServerOptions(port=0, threads=1, max_num_batched_tokens=max(contexts))
    with start_server(options) as server:
        for context in contexts:
            bare = {
                "bare": _bare(model, plain, context, random),
                "same products": _bare(model, Matrix, context, random),
            }
            served = {path: _served(server.url, path, context, random) for path in PATHS}
            times = time_in_turns({**bare, **served}, effort.n_blocks)
            for path in served:
                medians = (statistics.median(times[name]) * 1e3 for name in ("bare", path))
                ratios = (ratio(times[path], times[name]) for name in bare)
                table.add(context, path, *medians, *ratios)
    return table


def _bare(
    model: Llama,
    prepare: Callable[[torch.Tensor], Callable[[torch.Tensor], torch.Tensor]],
    context: int,
    random: np.random.Generator,
) -> Callable[[], float]:
    bare = BareModel(model, prepare, n_seqs=1, longest=context)

    def read() -> float:
        token_ids = torch.tensor([_prompt(random, context)])
        bare.n_computed = 0
        began = time.perf_counter()
        with torch.inference_mode():
            bare.run(token_ids).tolist()
        return time.perf_counter() - began

    return lambda: statistics.median(read() for _ in range(N_CALLS))


def _served(url: str, path: str, context: int, random: np.random.Generator) -> Callable[[], float]:
    streams = EventStreams(f"{url}/v1/completions", [])
    accel = "false" if path == "baseline" else "true"

    def ask() -> float:
        body = {
            "prompt": _prompt(random, context), "max_tokens": 1, "stream": True,
            "ignore_eos": True, "temperature": 0.0,
        }  # fmt: skip
        return streams.time_first(body, accel)

    return lambda: statistics.median(ask() for _ in range(N_CALLS))


def _prompt(random: np.random.Generator, context: int) -> list[int]:
    return [int(token) for token in random.integers(300, 4000, context)]
