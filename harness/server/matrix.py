"""A weight matrix that rows are multiplied by, whichever way is fastest here.

torch's own float32 product goes to a library that uses half of the vector width on some
processors; oneDNN, which torch brings along, does not, but takes some ten microseconds to begin. So
a product of many operations goes there, over a second copy of the weights in oneDNN's order.
Another device, another dtype, or a torch without oneDNN: every product is torch's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import torch
from torch.nn.functional import linear

if TYPE_CHECKING:
    from torch import Tensor

WORTH_IT: Final = 1 << 19
"""Multiplications from which oneDNN's start is made up for; measured by `make bench-server`."""


class Matrix:
    """Computes `rows @ weight.T`.

    Shapes: weight (n_out, n_in); rows (n, n_in) to (n, n_out).
    """

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight
        self._packed = _pack(weight)

    def __call__(self, rows: Tensor) -> Tensor:
        """Multiply every row."""
        if self._packed is None or rows.shape[0] * self._weight.numel() < WORTH_IT:
            return linear(rows, self._weight)
        product = torch.ops.mkldnn._linear_pointwise(rows, self._packed, None, "none", [], "")  # noqa: SLF001  what torch's own compiler calls; it has no public name
        return cast("Tensor", product)


def _pack(weight: Tensor) -> Tensor | None:
    """Copy the weights into oneDNN's order, where there is one."""
    is_plain = weight.device.type == "cpu" and weight.dtype == torch.float32
    if not (is_plain and torch.backends.mkldnn.is_available()):  # type: ignore[no-untyped-call]
        return None
    packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach().contiguous(), None)  # noqa: SLF001
    return cast("Tensor", packed)
