"""Entropy, top mass and varentropy of rows of logits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kernels.bench.case import BACKENDS, Case
from kernels.bench.timing import Contender
from kernels.bench.workload import make_logits
from kernels.entropy import measure_entropy


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """One and eight rows."""
    for n_seqs in (2,) if is_quick else (1, 8):
        yield _case(n_seqs, 1024 if is_quick else 128256)


def _case(n_seqs: int, vocab_size: int) -> Case:
    return Case(
        op="entropy",
        shape=f"V={vocab_size} B={n_seqs}",
        n_bytes=4 * n_seqs * vocab_size,
        contenders=lambda: list(_contenders(n_seqs, vocab_size)),
    )


def _contenders(n_seqs: int, vocab_size: int) -> Iterator[Contender]:
    logits = make_logits("peaked", n_seqs, vocab_size)
    for backend in BACKENDS:
        yield Contender(name=backend, run=partial(measure_entropy, logits, backend=backend))
