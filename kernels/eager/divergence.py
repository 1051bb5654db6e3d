"""Divergences of two sets of logits in eager torch; the contract is `kernels.divergence`'s."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


def measure_divergence(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """KL, reverse KL, JS and variation of every row.

    Shapes: (n_rows, vocab_size) each; results (n_rows,) float64.
    """
    log_p = torch.log_softmax(first, dim=-1, dtype=torch.float64)
    log_q = torch.log_softmax(second, dim=-1, dtype=torch.float64)
    p, q = log_p.exp(), log_q.exp()
    log_middle = torch.logaddexp(log_p, log_q) - math.log(2)
    js = (_expected(p, log_p, log_middle) + _expected(q, log_q, log_middle)) / 2
    variation = (p - q).abs().sum(dim=-1) / 2
    return _expected(p, log_p, log_q), _expected(q, log_q, log_p), js.clamp(min=0), variation


def _expected(p: Tensor, log_p: Tensor, log_q: Tensor) -> Tensor:
    """Sum p (ln p - ln q) over the tokens that p allows; never below 0 by rounding.

    Shapes: (n_rows, vocab_size) each to (n_rows,).
    """
    terms = torch.where(p == 0, 0.0, p * (log_p - log_q))
    return terms.sum(dim=-1).clamp(min=0)
