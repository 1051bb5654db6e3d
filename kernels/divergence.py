"""How far two distributions over the same tokens are apart: KL both ways, JS, total variation.

Contract, dispatch and the float64 reference. The distributions come as logits and are compared in
float64 by stable log-softmax: nothing is added inside a logarithm, which would bias the value. A
divergence estimated from draws is another matter (`harness.stats.goodness`).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import divergence as eager

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend


class Divergences(NamedTuple):
    """What lies between two rows, for every pair of rows.

    Attributes:
        kl: sum p ln(p / q), +inf where q excludes what p allows.
        reverse_kl: sum q ln(q / p).
        js: Jensen-Shannon, the mean KL to m = (p + q) / 2; at most ln 2.
        variation: total variation, sum |p - q| / 2; at most 1.

    Shapes: each (n_rows,) float64.
    Units: nats.
    """

    kl: Tensor
    reverse_kl: Tensor
    js: Tensor
    variation: Tensor


class Summary(NamedTuple):
    """Divergences of many rows in a few numbers.

    Attributes:
        p999: Smallest value that at least 99.9 % of rows stay at or below.
        pass_rate: Share of rows at or below the threshold; NaN never passes.
    """

    mean: float
    p999: float
    maximum: float
    pass_rate: float


def measure_divergence(
    first: Tensor, second: Tensor, *, backend: Backend | None = None
) -> Divergences:
    """Compare softmax(first) = p with softmax(second) = q, row by row.

    A logit of -inf excludes its token: on both sides it adds nothing, on one side KL from that side
    is +inf while JS and variation stay finite. A row with NaN or +inf, or without a finite logit,
    is no distribution: all four are NaN.

    Shapes: first and second (n_rows, vocab_size), any floating dtype; rows may be apart.

    Raises:
        ValueError: the shapes differ, are not two-dimensional, or there is no token.
        TypeError: logits that are no floating-point numbers.
        BackendError: the backend asked for cannot run.
    """
    if first.shape != second.shape or first.dim() != 2 or first.shape[1] == 0:
        raise ValueError(
            f"divergence: got logits of shape {tuple(first.shape)} and {tuple(second.shape)}, "
            "allowed two of (n_rows, vocab_size) with vocab_size above 0"
        )
    if not (first.is_floating_point() and second.is_floating_point()):
        raise TypeError(
            f"divergence: got {first.dtype} and {second.dtype}, allowed floating-point logits"
        )
    if first.device != second.device:
        raise ValueError(f"divergence: got logits on {first.device} and {second.device}")
    if choose_backend("divergence", str(first.device), backend) == "cpu":
        return Divergences(*_measure_natively(first, second).unbind())
    return Divergences(*eager.measure_divergence(first, second))


def _measure_natively(first: Tensor, second: Tensor) -> Tensor:
    """Call the C++ kernel; logits narrower than float32 are widened, which is exact.

    Shapes: result (4, n_rows) float64.
    """
    wide = torch.promote_types(torch.promote_types(first.dtype, second.dtype), torch.float32)
    result = first.new_empty((4, first.shape[0]), dtype=torch.float64)
    one, two = (_rows(each.detach().to(wide)) for each in (first, second))
    cpu.native.measure_divergence(one, two, result)
    return result


def _rows(logits: Tensor) -> Tensor:
    """The same values with the tokens of a row side by side; a copy only where they are not."""
    return logits if logits.stride(1) == 1 or logits.shape[1] == 1 else logits.contiguous()


def summarise(values: Tensor, threshold: float) -> Summary:
    """Fold one divergence of all rows.

    Shapes: values (n_rows,), at least one.

    Raises:
        ValueError: no rows.
    """
    n_rows = values.numel()
    if n_rows == 0:
        raise ValueError("divergence: got no rows to summarise, allowed at least one")
    ordered = values.to(torch.float64).sort().values  # NaN stands last: it is never hidden
    place = math.ceil(0.999 * n_rows) - 1
    return Summary(
        mean=float(ordered.mean()),
        p999=float(ordered[place]),
        maximum=float(ordered[-1]),
        pass_rate=float((ordered <= threshold).double().mean()),
    )


def reference_divergence(
    first: NDArray[np.float64], second: NDArray[np.float64]
) -> tuple[float, float, float, float]:
    """KL, reverse KL, JS and variation of one pair of rows, token by token.

    Shapes: both (vocab_size,), each with a finite logit and none NaN or +inf.
    """
    log_p, log_q = _reference_log_softmax(first), _reference_log_softmax(second)
    kl = reverse_kl = js = variation = 0.0
    for one, two in zip(log_p, log_q, strict=True):
        p, q = math.exp(one), math.exp(two)
        middle = math.log(p + q) - math.log(2) if p + q else -math.inf
        kl += _term(one, two)
        reverse_kl += _term(two, one)
        js += (_term(one, middle) + _term(two, middle)) / 2
        variation += abs(p - q) / 2
    return kl, reverse_kl, js, variation


def _reference_log_softmax(logits: NDArray[np.float64]) -> list[float]:
    values = logits.tolist()
    largest = max(values)
    log_total = math.log(math.fsum(math.exp(value - largest) for value in values))
    return [value - largest - log_total for value in values]


def _term(log_p: float, log_q: float) -> float:
    """One token's part of a KL: nothing where p = 0, +inf where only q is."""
    return math.exp(log_p) * (log_p - log_q) if math.exp(log_p) else 0.0
