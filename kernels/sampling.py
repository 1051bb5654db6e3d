"""From logits to one token: temperature, top-k, min-p, top-p, typical-p, depth clip, draw.

Contract, dispatch and the float64 reference; the work is done in `kernels.eager.sampling` and
`kernels/cpu/sampling.cpp`. Order and ties are judged on the logits themselves: exactly k tokens
survive top-k and the smallest prefix survives top-p, the lowest id first among equals.
The draw is an exponential race, `argmax_j p_j / E_j`, whose noise E_j is a pure function of
(seed, position, token id): a token never depends on the batch its sequence happens to share, nor on
the backend. Not here: penalties, which come before (`kernels.penalties`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import torch

from kernels import cpu
from kernels.backend import Backend, choose_backend
from kernels.eager import sampling as eager
from kernels.eager.sampling import GREEDY_TEMPERATURE
from kernels.entropy import Entropy, measure_entropy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = [
    "GREEDY_TEMPERATURE",
    "OFF",
    "SETTINGS",
    "Draw",
    "build_settings",
    "filter_logits",
    "probabilities",
    "reference_noise",
    "reference_probabilities",
    "sample",
]

SETTINGS: Final = np.dtype(
    [
        ("temperature", np.float64),
        ("min_p", np.float64),
        ("top_p", np.float64),
        ("typical_p", np.float64),
        ("depth", np.float64),
        ("top_k", np.int64),
        ("seed", np.int64),
        ("position", np.int64),
    ]
)
"""What one row asks for. A caller may keep an array of these and change only what moves on."""

OFF: Final = {
    "temperature": 1.0,
    "min_p": 0.0,
    "top_p": 1.0,
    "typical_p": 1.0,
    "depth": math.inf,
    "top_k": 0,
}
"""No filter: every finite logit can be drawn. `top_k` is off at 0, below, and from the vocabulary's
size on."""


class Draw(NamedTuple):
    """Chosen tokens; which rows had no finite logit left (their token is 0); which held a NaN.

    The entropy stands there where it was asked for.

    Shapes: all (n_seqs,); int64, bool, bool.
    """

    token_ids: Tensor
    is_faulty: Tensor
    has_nan: Tensor
    entropy: Entropy | None = None


def build_settings(n_seqs: int, **columns: Any) -> NDArray[np.void]:
    """Give `n_seqs` records; what is not named is `OFF`, and seed and position 0.

    Shapes: each column a number or (n_seqs,); result (n_seqs,) of `SETTINGS`.
    """
    settings = np.zeros(n_seqs, SETTINGS)
    for name, value in (OFF | columns).items():
        settings[name] = value
    return settings


def sample(
    logits: Tensor,
    settings: NDArray[np.void],
    *,
    with_entropy: bool = False,
    backend: Backend | None = None,
) -> Draw:
    """Filter every row and draw one token from what is left.

    With M the largest logit of a row and h = (x - M) / temperature: top-k keeps the first k of the
    order; min-p what has h >= ln(min_p); top-p the smallest prefix whose mass, renormalised after
    the filters before it, reaches top_p; typical-p the tokens whose surprise is nearest to the
    entropy until they have that mass, with all that are as near as the last one; the depth clip
    what is at most `depth` nats below the largest that is left (so it equals min_p = exp(-depth)).
    Below `GREEDY_TEMPERATURE`, and with top_k = 1, a row is exact argmax and its seed is not used.
    NaN counts as -inf. +inf wins, the first one of them. `with_entropy` measures softmax(logits) in
    the same call, as `kernels.entropy` does.

    Shapes: logits (n_seqs, vocab_size) float32 or bfloat16, rows may be apart in memory;
        settings (n_seqs,) of `SETTINGS`.
    Source: Fan et al. 2018 (top-k); Holtzman et al. 2020 (top-p); Meister et al. 2023, as
        Transformers has it (typical-p); min-p as vLLM has it.

    Raises:
        ValueError: A setting out of its range, or arrays that do not go together.
    """
    if choose_backend("sampling", str(logits.device), backend) == "torch":
        require_settings(settings, logits)
        entropy = measure_entropy(logits, backend="torch") if with_entropy else None
        return Draw(*eager.draw_rows(logits, settings), entropy)
    tokens = np.empty(len(settings), np.int64)
    is_faulty, has_nan = np.empty((2, len(settings)), np.bool_)
    measures = np.empty((3, len(settings))) if with_entropy else None
    cpu.native.draw_rows(
        logits, _words(settings), tokens, is_faulty, has_nan, measures, torch.get_num_threads()
    )
    entropy = None if measures is None else Entropy(*torch.from_numpy(measures))
    return Draw(
        torch.from_numpy(tokens), torch.from_numpy(is_faulty), torch.from_numpy(has_nan), entropy
    )


def probabilities(
    logits: Tensor, settings: NDArray[np.void], *, backend: Backend | None = None
) -> Tensor:
    """Give the distribution that `sample` draws each row from; all 0 where a row is faulty.

    Shapes: as `sample`; result (n_seqs, vocab_size) float64.
    """
    if choose_backend("probabilities", str(logits.device), backend) == "torch":
        require_settings(settings, logits)
        return eager.spread_rows(logits, settings)
    result = torch.empty(logits.shape, dtype=torch.float64)
    cpu.native.spread_rows(logits, _words(settings), result, torch.get_num_threads())
    return result


def filter_logits(
    logits: Tensor, settings: NDArray[np.void], *, backend: Backend | None = None
) -> Tensor:
    """Give logits with softmax `probabilities`: their logarithms, -inf where nothing is kept.

    Shapes: as `sample`; result (n_seqs, vocab_size) float64.
    """
    return probabilities(logits, settings, backend=backend).log_()


_RANGES: Final[dict[str, tuple[str, Callable[[NDArray[np.float64]], NDArray[np.bool_]]]]] = {
    "temperature": ("0 or more", lambda x: (x >= 0) & (x < math.inf)),
    "min_p": ("0 to 1", lambda x: (x >= 0) & (x <= 1)),
    "top_p": ("above 0 to 1 (1 is off)", lambda x: (x > 0) & (x <= 1)),
    "typical_p": ("above 0 to 1 (1 is off)", lambda x: (x > 0) & (x <= 1)),
    "depth": ("0 or more (infinity is off)", lambda x: x >= 0),
}


def require_settings(settings: NDArray[np.void], logits: Tensor) -> None:
    """Refuse what the native kernels refuse, in the same words."""
    if logits.ndim != 2:
        raise ValueError(f"logits: got {logits.ndim} axes, allowed 2 (n_seqs, vocab_size)")
    _words(settings)
    if len(settings) != len(logits):
        raise ValueError(
            f"settings: got {len(settings)} rows, allowed {len(logits)}, one for each row of logits"
        )
    for name, (allowed, is_allowed) in _RANGES.items():
        wrong = ~is_allowed(settings[name])
        if wrong.any():
            row = int(wrong.argmax())
            raise ValueError(f"row {row}: {name}: got {settings[name][row]:g}, allowed {allowed}")


def _words(settings: NDArray[np.void]) -> NDArray[np.uint8]:
    """Give the bytes of the records, which is how the native kernels take them."""
    if settings.dtype != SETTINGS or settings.ndim != 1:
        raise ValueError(
            f"settings: got {settings.dtype} of shape {settings.shape}, allowed SETTINGS of shape "
            "(n_seqs,)"
        )
    return np.ascontiguousarray(settings).view(np.uint8).reshape(len(settings), SETTINGS.itemsize)


def reference_probabilities(
    logits: NDArray[np.float64],
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    min_p: float = 0.0,
    top_p: float = 1.0,
    typical_p: float = 1.0,
    depth: float = math.inf,
) -> NDArray[np.float64]:
    """Give the distribution one row is drawn from, filter by filter in float64.

    Shapes: logits (vocab_size,) to the same; a greedy row becomes one-hot, a faulty one all 0.
    """
    clean = np.where(np.isnan(logits), -np.inf, np.asarray(logits, dtype=np.float64))
    result = np.zeros(len(clean))
    order = np.argsort(-clean, kind="stable")
    order = order[clean[order] > -np.inf]
    if not len(order):
        return result
    if temperature < GREEDY_TEMPERATURE or top_k == 1 or clean[order[0]] == np.inf:
        result[order[0]] = 1.0
        return result
    height = (clean - clean[order[0]]) / temperature
    kept = order[:top_k] if top_k > 0 else order
    if min_p > 0:
        kept = kept[height[kept] >= np.log(min_p)]
    if top_p < 1:
        kept = kept[: _reference_count(np.exp(height[kept]), top_p)]
    if typical_p < 1:
        kept = _reference_typical(kept, height[kept], typical_p)
    kept = kept[height[kept] >= height[kept].max() - depth]
    result[kept] = np.exp(height[kept])
    return np.asarray(result / result.sum())


def _reference_count(weights: NDArray[np.float64], share: float) -> int:
    """Tell how many of the first weights reach their share of the sum."""
    return int((weights.cumsum() - weights < share * weights.sum()).sum())


def _reference_typical(
    tokens: NDArray[np.intp], height: NDArray[np.float64], share: float
) -> NDArray[np.intp]:
    """Keep the tokens nearest to the entropy until their weight reaches its share."""
    weights = np.exp(height)
    surprise = np.log(weights.sum()) - height
    entropy = np.nansum(weights / weights.sum() * surprise)
    distance = np.abs(surprise - entropy)
    nearest = np.argsort(distance, kind="stable")
    last = nearest[_reference_count(weights[nearest], share) - 1]
    return np.asarray(tokens[distance <= distance[last]])


def reference_noise(seed: int, position: int, vocab_size: int) -> NDArray[np.float64]:
    """Exponential noise of one row, with Python's unbounded integers.

    Shapes: result (vocab_size,).
    """
    return np.asarray(-np.log(reference_uniforms(seed, position, vocab_size)))


def reference_uniforms(seed: int, position: int, vocab_size: int) -> NDArray[np.float64]:
    """Uniform numbers of one row, inside (0, 1): the 53 upper bits of SplitMix64 and a half.

    Shapes: result (vocab_size,).
    """
    key = _mix_int((seed % _WORD) ^ _mix_int(position * _GAMMA + _MIX_1))
    words = [_mix_int(key + (token + 1) * _GAMMA) for token in range(vocab_size)]
    # As a double, the largest of them would be 1, and its noise 0.
    return np.array([min(((word >> 11) + 0.5) * 2.0**-53, 1 - 2.0**-53) for word in words])


_WORD: Final = 1 << 64
_GAMMA: Final = 0x9E3779B97F4A7C15
_MIX_1: Final = 0xBF58476D1CE4E5B9
_MIX_2: Final = 0x94D049BB133111EB


def _mix_int(word: int) -> int:
    """SplitMix64's finaliser on a Python integer."""
    word %= _WORD
    word = ((word ^ (word >> 30)) * _MIX_1) % _WORD
    word = ((word ^ (word >> 27)) * _MIX_2) % _WORD
    return word ^ (word >> 31)
