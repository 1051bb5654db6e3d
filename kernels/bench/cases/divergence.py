"""KL, JS and total variation of two sets of logits, as the fidelity gate measures them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kernels.bench.case import BACKENDS, Case
from kernels.bench.timing import Contender
from kernels.bench.workload import make_logits
from kernels.divergence import measure_divergence


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """Sixteen pairs of rows."""
    yield _case(2, 1024) if is_quick else _case(16, 32768)


def _case(n_rows: int, vocab_size: int) -> Case:
    return Case(
        op="divergence",
        shape=f"{n_rows} pairs, V={vocab_size}",
        n_bytes=2 * 4 * n_rows * vocab_size,
        n_items=n_rows * vocab_size,
        item="tokens",
        contenders=lambda: list(_contenders(n_rows, vocab_size)),
    )


def _contenders(n_rows: int, vocab_size: int) -> Iterator[Contender]:
    first, second = (make_logits("peaked", n_rows, vocab_size, seed=seed) for seed in (1, 2))
    for backend in BACKENDS:
        yield Contender(
            name=backend,
            run=partial(measure_divergence, first, second, backend=backend),
        )
