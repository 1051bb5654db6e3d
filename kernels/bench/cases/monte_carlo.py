"""Random numbers with their transform, beside torch's own generator and its chain of calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import torch

from kernels.bench.case import BACKENDS, SMART, Case
from kernels.bench.timing import Contender
from kernels.monte_carlo import LAWS, Law, draw_monte_carlo

if TYPE_CHECKING:
    from torch import Tensor

SCALE, LOCATION = 2.0, 0.5


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """Every law, 32 rows of 8,192."""
    for law in LAWS[:1] if is_quick else LAWS:
        yield _case(law, 32, 256 if is_quick else 8192)


def _case(law: Law, n_rows: int, n_columns: int) -> Case:
    return Case(
        op="monte_carlo",
        shape=f"{law} {n_rows} x {n_columns}",
        n_bytes=4 * n_rows * n_columns,
        n_items=n_rows * n_columns,
        item="draws",
        contenders=lambda: list(_contenders(law, n_rows, n_columns)),
    )


def _contenders(law: Law, n_rows: int, n_columns: int) -> Iterator[Contender]:
    rows = torch.arange(n_rows)
    for backend in BACKENDS:
        yield Contender(
            name=backend,
            run=partial(
                draw_monte_carlo,
                law,
                rows,
                n_columns,
                seed=1,
                location=LOCATION,
                scale=SCALE,
                backend=backend,
            ),
        )
    yield Contender(name=SMART, run=lambda: _CHAINS[law](torch.empty(n_rows, n_columns)))


_CHAINS: Final[dict[Law, Callable[[Tensor], Tensor]]] = {
    "uniform": lambda out: out.uniform_(LOCATION, LOCATION + SCALE),
    "normal": lambda out: out.normal_(LOCATION, SCALE),
    "sigmoid_normal": lambda out: out.normal_(LOCATION, SCALE).sigmoid_(),
    "exponential": lambda out: out.exponential_().mul_(SCALE).add_(LOCATION),
    "gumbel": lambda out: out.exponential_().log_().mul_(-SCALE).add_(LOCATION),
}
"""Torch's generator and the calls behind it, in place."""
