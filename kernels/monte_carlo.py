"""Random numbers and their transform in one call, each a pure function of (seed, row, column).

Contract, dispatch and the float64 reference. No two elements share a number, and no element depends
on the batch it is drawn with: rows carry their own number, columns may begin anywhere. The words
are Philox 4x32-10, the same on every backend; a transformed value agrees within float32 rounding.
Gradients reach location and scale: nothing is kept for them, the numbers are drawn again.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import monte_carlo as eager

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from kernels.backend import Backend

Law = Literal["uniform", "normal", "sigmoid_normal", "exponential", "gumbel"]
LAWS: Final[tuple[Law, ...]] = get_args(Law)
_WORD: Final = 1 << 32
_SEED: Final = 1 << 64


def draw_monte_carlo(
    law: Law,
    rows: Tensor,
    n_columns: int,
    *,
    seed: int,
    location: Tensor | float = 0.0,
    scale: Tensor | float = 1.0,
    first_column: int = 0,
    backend: Backend | None = None,
) -> Tensor:
    """Give `location + scale * base` for every row and column; `sigmoid_normal` of a sigmoid.

    The base is uniform in the open (0, 1), standard normal, standard exponential (-ln u) or
    standard Gumbel (-ln -ln u). Column c is word (c / 16) mod 4 of the counter
    16 (c / 64) + c mod 16; the two normals of a pair (Box and Muller) are words 0, 1 and 2, 3.

    Shapes: rows (n_rows,) int64, the number of each row; location and scale a number or (n_rows,)
        float32; result (n_rows, n_columns) float32.
    Source: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011), Philox 4x32-10.

    Raises:
        ValueError: an unknown law, rows that are no int64 vector, or a negative size.
        BackendError: the backend asked for cannot run.
    """
    if law not in LAWS:
        raise ValueError(f"monte_carlo: got law {law!r}, allowed {', '.join(LAWS)}")
    if rows.dim() != 1 or rows.dtype != torch.int64:
        raise ValueError(
            f"monte_carlo: got rows {tuple(rows.shape)} of {rows.dtype}, allowed (n_rows,) of int64"
        )
    if n_columns < 0 or first_column < 0:
        raise ValueError(
            f"monte_carlo: got {n_columns} columns from {first_column}, allowed 0 or more of both"
        )
    chosen = choose_backend("monte_carlo", str(rows.device), backend)
    base = _Base(law, rows, n_columns, seed % _SEED, first_column, chosen)
    columns = [
        _per_row(name, value, rows) for name, value in (("location", location), ("scale", scale))
    ]
    result: Tensor = _Draw.apply(base, *columns)  # type: ignore[no-untyped-call]
    return result


def _per_row(name: str, value: Tensor | float, rows: Tensor) -> Tensor:
    column = torch.as_tensor(value, dtype=torch.float32, device=rows.device)
    if column.shape not in {torch.Size([]), rows.shape}:
        raise ValueError(
            f"monte_carlo: got {name} of shape {tuple(column.shape)}, allowed a number or "
            f"{tuple(rows.shape)}"
        )
    return column.expand(rows.shape)


class _Base:
    """What is needed to draw the same numbers again."""

    def __init__(
        self,
        law: Law,
        rows: Tensor,
        n_columns: int,
        seed: int,
        first_column: int,
        backend: Backend,
    ) -> None:
        self.law = law
        self._rows = rows
        self._n_columns = n_columns
        self._seed = seed
        self._first_column = first_column
        self._backend = backend

    def draw(self, law: Law, location: Tensor, scale: Tensor) -> Tensor:
        """Transform the words by `law`."""
        if self._backend == "torch":
            columns = torch.arange(self._n_columns, device=self._rows.device) + self._first_column
            return eager.draw_monte_carlo(law, self._rows, columns, self._seed, location, scale)
        result = torch.empty((len(self._rows), self._n_columns))
        signed = self._seed - _SEED if self._seed >= _SEED // 2 else self._seed
        cpu.native.draw_monte_carlo(
            result,
            law,
            signed,
            self._rows.contiguous(),
            self._first_column,
            location.contiguous(),
            scale.contiguous(),
        )
        return result

    def redraw(self) -> Tensor:
        """The base values alone: d result / d scale before any sigmoid."""
        law: Law = "normal" if self.law == "sigmoid_normal" else self.law
        zero = torch.zeros(len(self._rows), device=self._rows.device)
        return self.draw(law, zero, zero + 1)


class _Draw(torch.autograd.Function):
    """The draw with its gradients; the numbers themselves have none."""

    @staticmethod
    def forward(ctx: Any, base: _Base, location: Tensor, scale: Tensor) -> Tensor:
        result = base.draw(base.law, location.detach(), scale.detach())
        ctx.base = base
        if base.law == "sigmoid_normal":
            ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor, Tensor]:
        (gradient,) = gradients
        if ctx.base.law == "sigmoid_normal":
            (result,) = ctx.saved_tensors
            gradient = gradient * result * (1 - result)
        return None, gradient.sum(dim=1), (gradient * ctx.base.redraw()).sum(dim=1)


def reference_philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """Ten rounds of Philox 4x32 on Python integers.

    Shapes: four 32-bit words of counter, two of key, four of output.
    """
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (
            (second // _WORD) ^ c1 ^ k0,
            second % _WORD,
            (first // _WORD) ^ c3 ^ k1,
            first % _WORD,
        )
        k0, k1 = (k0 + 0x9E3779B9) % _WORD, (k1 + 0xBB67AE85) % _WORD
    return c0, c1, c2, c3


def reference_words(seed: int, row: int, column: int) -> tuple[tuple[int, ...], int]:
    """The four words of an element's counter, and which of them is its own."""
    block = 16 * (column // 64) + column % 16
    counter = (block % _WORD, block // _WORD, row % _WORD, row // _WORD % _WORD)
    return reference_philox(counter, (seed % _WORD, seed // _WORD % _WORD)), column // 16 % 4


def reference_monte_carlo(
    law: Law, seed: int, row: int, column: int, *, location: float = 0.0, scale: float = 1.0
) -> float:
    """One element in float64, by the formulas of the contract."""
    words, own = reference_words(seed, row, column)
    value = location + scale * _BASES[law](words, own)
    return 1 / (1 + math.exp(-value)) if law == "sigmoid_normal" else value


def _fraction(word: int) -> float:
    return (word + 0.5) / _WORD


def _reference_normal(words: tuple[int, ...], own: int) -> float:
    pair = own // 2 * 2
    radius = math.sqrt(-2 * math.log(_fraction(words[pair])))
    # The angle is the word itself: its half step would turn nothing that can be seen.
    angle = 2 * math.pi * words[pair + 1] / _WORD
    return radius * (math.sin(angle) if own % 2 else math.cos(angle))


_BASES: Final[dict[Law, Callable[[tuple[int, ...], int], float]]] = {
    "uniform": lambda words, own: ((words[own] >> 9) + 0.5) / (1 << 23),
    "normal": _reference_normal,
    "sigmoid_normal": _reference_normal,
    "exponential": lambda words, own: -math.log(_fraction(words[own])),
    "gumbel": lambda words, own: -math.log(-math.log(_fraction(words[own]))),
}
