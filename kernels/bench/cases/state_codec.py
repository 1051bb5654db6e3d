"""FP8 and INT4 to and from float32, beside torch's own cast where there is one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from kernels.bench.case import BACKENDS, NATIVE, SMART, Case, Target
from kernels.bench.timing import Contender
from kernels.state_codec import decode_fp8, encode_fp8, pack_int4, unpack_int4

HEAD: Final = 64
"""Elements of a row: a head's key or value."""


@dataclass(frozen=True, kw_only=True)
class _Direction:
    """One of the four conversions.

    Attributes:
        run: from (source, backend); the source is what `prepare` makes of float32 rows.
        cast: torch's own way, if it has one.
    """

    name: str
    bytes_per_element: float
    prepare: Callable[[torch.Tensor], Any]
    run: Callable[..., object]
    cast: Callable[[Any], object] | None = None
    least_rate: float | None = None


DIRECTIONS: Final = (
    _Direction(
        name="float32 to FP8",
        bytes_per_element=5,
        prepare=lambda values: values,
        run=encode_fp8,
        cast=lambda values: values.to(torch.float8_e4m3fn),
    ),
    _Direction(
        name="FP8 to float32",
        bytes_per_element=5,
        prepare=encode_fp8,
        run=decode_fp8,
        cast=lambda codes: codes.view(torch.float8_e4m3fn).to(torch.float32),
        least_rate=1.8e9,
    ),
    _Direction(
        name="float32 to INT4 g32",
        bytes_per_element=4 + 0.5 + 4 / 32,
        prepare=lambda values: values,
        run=pack_int4,
    ),
    _Direction(
        name="INT4 g32 to float32",
        bytes_per_element=4 + 0.5 + 4 / 32,
        prepare=pack_int4,
        run=lambda packed, *, backend: unpack_int4(packed, HEAD, backend=backend),
        least_rate=1.8e9,
    ),
)


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """Rows of 64, a million elements."""
    for direction in DIRECTIONS:
        yield _case(direction, 1 << (10 if is_quick else 20))


def _case(direction: _Direction, n: int) -> Case:
    target = Target(least_rate=direction.least_rate) if direction.least_rate else None
    return Case(
        op="state_codec",
        shape=f"{direction.name}, {n >> 10} Ki elements",
        n_bytes=int(direction.bytes_per_element * n),
        n_items=n,
        contenders=lambda: list(_contenders(direction, n)),
        target=target if NATIVE in BACKENDS else None,
    )


def _contenders(direction: _Direction, n: int) -> Iterator[Contender]:
    values = torch.randn((n // HEAD, HEAD), generator=torch.Generator().manual_seed(1))
    source = direction.prepare(values)
    for backend in BACKENDS:
        yield Contender(name=backend, run=partial(direction.run, source, backend=backend))
    if direction.cast is not None:
        yield Contender(name=SMART, run=partial(direction.cast, source))
