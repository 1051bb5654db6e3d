"""Log-probabilities of the chosen and of the twenty likeliest tokens."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from kernels.bench.case import BACKENDS, Case
from kernels.bench.timing import Contender
from kernels.bench.workload import make_logits
from kernels.logprobs import measure_logprobs


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """One and eight rows."""
    for n_seqs in (2,) if is_quick else (1, 8):
        yield _case(n_seqs, 1024 if is_quick else 128256)


def _case(n_seqs: int, vocab_size: int) -> Case:
    return Case(
        op="logprobs",
        shape=f"V={vocab_size} B={n_seqs}, the likeliest 20",
        n_bytes=4 * n_seqs * vocab_size,
        contenders=lambda: list(_contenders(n_seqs, vocab_size)),
    )


def _contenders(n_seqs: int, vocab_size: int) -> Iterator[Contender]:
    logits = make_logits("peaked", n_seqs, vocab_size)
    chosen = torch.arange(n_seqs)
    for backend in BACKENDS:
        run = partial(measure_logprobs, logits, chosen, 20, backend=backend)
        yield Contender(name=backend, run=run)
