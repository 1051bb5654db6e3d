"""One step of beam search: the best continuations of all beams, and whose blocks they go on with.

Contract, dispatch and the float64 reference of the step; the reordering of block tables, which
copies no keys and values, is arithmetic on block numbers and has one implementation. Merging of
similar beams is `kernels.similarity`'s, what a block holds is the caller's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch

from kernels import cpu
from kernels.backend import choose_backend
from kernels.eager import beam as eager

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend


class BeamStep(NamedTuple):
    """The new beams, the best first.

    Attributes:
        parents: Beam that each goes on from.
        token_ids: Token that each appends.
        scores: Score of the parent plus the token's log-probability.

    Shapes: each (n_batch, width); int64, int64, float32.
    """

    parents: Tensor
    token_ids: Tensor
    scores: Tensor


class Reordering(NamedTuple):
    """Block tables of the new beams.

    Attributes:
        tables: Rows of the parents' tables; -1 where a table has ended.
        references: How many tables hold each block now.
        freed: Blocks that no table holds any longer, rising.
        must_copy: Beams that must copy their last block before they write: it is not full, and a
            beam before them holds it as well.

    Shapes: tables (n_beams, n_columns) int64; references (n_blocks,) int64; freed (n_freed,) int64;
        must_copy (n_beams,) bool.
    """

    tables: NDArray[np.int64]
    references: NDArray[np.int64]
    freed: NDArray[np.int64]
    must_copy: NDArray[np.bool_]


def step_beams(
    scores: Tensor, logprobs: Tensor, width: int, *, backend: Backend | None = None
) -> BeamStep:
    """Choose the `width` best of beams x vocabulary in every batch entry.

    A continuation scores scores[beam] + logprobs[beam, token], rounded once in float32. Of equal
    scores the lower beam, then the lower token comes first; NaN counts as -inf.

    Shapes: scores (n_batch, n_beams) float32; logprobs (n_batch, n_beams, vocab_size) float32.

    Raises:
        ValueError: The shapes do not go together, or `width` is outside 1 .. n_beams x vocab_size.
        TypeError: Another type than float32.
        BackendError: The backend asked for cannot run.
    """
    if logprobs.dim() != 3 or scores.shape != logprobs.shape[:2]:
        raise ValueError(
            f"beam: got scores {tuple(scores.shape)} and logprobs {tuple(logprobs.shape)}, "
            "allowed (n_batch, n_beams) and (n_batch, n_beams, vocab_size)"
        )
    n_choices = logprobs.shape[1] * logprobs.shape[2]
    if not 1 <= width <= n_choices:
        raise ValueError(
            f"beam: got width {width}, allowed 1 to {n_choices} (n_beams x vocab_size)"
        )
    if scores.dtype != torch.float32 or logprobs.dtype != torch.float32:
        raise TypeError(f"beam: got {scores.dtype} and {logprobs.dtype}, allowed torch.float32")
    if choose_backend("beam", str(logprobs.device), backend) == "cpu":
        flat, best = _step_natively(scores, logprobs, width)
    else:
        flat, best = eager.step_beams(scores, logprobs, width)
    vocab_size = logprobs.shape[2]
    return BeamStep(flat // vocab_size, flat % vocab_size, best)


def _step_natively(scores: Tensor, logprobs: Tensor, width: int) -> tuple[Tensor, Tensor]:
    shape = (scores.shape[0], width)
    flat, best = torch.empty(shape, dtype=torch.int64), torch.empty(shape)
    cpu.native.step_beams(scores.detach().contiguous(), logprobs.detach().contiguous(), flat, best)
    return flat, best


def reorder_tables(
    tables: NDArray[np.int64],
    references: NDArray[np.int64],
    parents: NDArray[np.int64],
    *,
    n_tokens: int,
    block_size: int,
) -> Reordering:
    """Give every new beam its parent's blocks; keys and values stay where they are.

    Shapes: tables (n_beams, n_columns), -1 behind the last block; references (n_blocks,);
        parents (n_new_beams,) rows of `tables`.

    Raises:
        ValueError: A parent or a block number is out of range, the tables are not as long as
            `n_tokens` needs, or a block has fewer references than the tables hold.
    """
    n_used = -(-n_tokens // block_size)
    held = tables[:, :n_used]
    _require_sound(tables, references, parents, n_used)
    new_tables = tables[parents]
    counts = references - np.bincount(held.ravel(), minlength=len(references))
    if (counts < 0).any():
        block = int(counts.argmin())
        raise ValueError(f"beam: block {block} is held more often than its references say")
    was_held = np.zeros(len(references), dtype=bool)
    was_held[held] = True
    counts += np.bincount(new_tables[:, :n_used].ravel(), minlength=len(references))
    freed = np.flatnonzero(was_held & (counts == 0))
    must_copy = np.zeros(len(parents), dtype=bool)
    if n_tokens % block_size:
        last = new_tables[:, n_used - 1]
        first_holder = np.unique(last, return_index=True)[1]
        must_copy[:] = True
        must_copy[first_holder] = False
    return Reordering(new_tables, counts, freed, must_copy)


def _require_sound(
    tables: NDArray[np.int64],
    references: NDArray[np.int64],
    parents: NDArray[np.int64],
    n_used: int,
) -> None:
    if parents.size and not (parents.min() >= 0 and parents.max() < len(tables)):
        raise ValueError(
            f"beam: got parents {parents.min()} to {parents.max()}, allowed 0 to {len(tables) - 1}"
        )
    held = tables[:, :n_used]
    if held.shape[1] < n_used or (held < 0).any() or (tables[:, n_used:] != -1).any():
        raise ValueError(f"beam: got tables that do not hold exactly {n_used} blocks each")
    if held.size and held.max() >= len(references):
        raise ValueError(f"beam: got block {held.max()}, allowed 0 to {len(references) - 1}")


def reference_step(
    scores: NDArray[np.float32], logprobs: NDArray[np.float32], width: int
) -> list[tuple[int, int, float]]:
    """Give (parent, token, score) of one batch entry's best, by sorting every continuation.

    The sums are those of the contract, of float32 numbers rounded once.

    Shapes: scores (n_beams,); logprobs (n_beams, vocab_size).
    """
    found = []
    for beam, score in enumerate(scores):
        for token, logprob in enumerate(logprobs[beam]):
            total = float(np.float32(score + logprob))
            found.append((-np.inf if np.isnan(total) else total, beam, token))
    found.sort(key=lambda each: (-each[0], each[1], each[2]))
    return [(beam, token, total) for total, beam, token in found[:width]]
