"""How undecided a row of logits is: entropy, largest probability and varentropy of its softmax.

Contract, dispatch and the float64 reference. Of the logits as they are, at temperature 1: what
follows from it (a dynamic temperature, a window) is the caller's. `kernels.sampling` measures it in
the call that draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kernels import cpu
from kernels.backend import Backend, choose_backend
from kernels.eager import entropy as eager

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


class Entropy(NamedTuple):
    """Of every row; all 0 where no logit is finite.

    Attributes:
        entropy: H = -sum p ln p.
        top_mass: The largest probability.
        varentropy: Variance of the surprise, sum p (-ln p - H)^2.

    Shapes: all (n_seqs,) float64.
    Units: nats, share, nats squared.
    """

    entropy: Tensor
    top_mass: Tensor
    varentropy: Tensor


def measure_entropy(logits: Tensor, *, backend: Backend | None = None) -> Entropy:
    """Measure softmax(logits). NaN counts as -inf; the first +inf has the whole mass.

    Shapes: logits (n_seqs, vocab_size) float32 or bfloat16, rows may be apart in memory.
    """
    if choose_backend("entropy", str(logits.device), backend) == "torch":
        return Entropy(*eager.measure_entropy(logits))
    result = np.empty((3, len(logits)))
    cpu.native.measure_entropy(logits, result, torch.get_num_threads())
    return Entropy(*torch.from_numpy(result))


def reference_entropy(logits: NDArray[np.float64]) -> tuple[float, float, float]:
    """Give entropy, largest probability and varentropy of one row of finite or -inf logits.

    Shapes: (vocab_size,).
    """
    finite = logits[logits > -np.inf]
    surprise = np.log(np.exp(finite - finite.max()).sum()) - (finite - finite.max())
    p = np.exp(-surprise)
    entropy = float((p * surprise).sum())
    return entropy, float(p.max()), float((p * (surprise - entropy) ** 2).sum())
