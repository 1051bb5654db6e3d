"""A step of beam search, beside one top-k over everything and a loop over groups and beams."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch

from kernels.beam import step_beams
from kernels.bench.case import BACKENDS, NAIVE, SMART, Case
from kernels.bench.timing import Contender
from kernels.bench.workload import make_logits

if TYPE_CHECKING:
    from torch import Tensor


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """One and eight requests of eight beams."""
    if is_quick:
        yield _case(2, 2, 512)
        return
    for n_groups, n_beams, vocab_size in ((1, 8, 32768), (1, 8, 128256), (8, 8, 32768)):
        yield _case(n_groups, n_beams, vocab_size)


def _case(n_groups: int, n_beams: int, vocab_size: int) -> Case:
    return Case(
        op="beam",
        shape=f"{n_groups} groups of {n_beams} beams, V={vocab_size}",
        n_bytes=4 * n_groups * n_beams * vocab_size,
        contenders=lambda: list(_contenders(n_groups, n_beams, vocab_size)),
    )


def _contenders(n_groups: int, n_beams: int, vocab_size: int) -> Iterator[Contender]:
    logits = make_logits("peaked", n_groups * n_beams, vocab_size)
    logprobs = logits.log_softmax(dim=1).view(n_groups, n_beams, vocab_size)
    scores = -torch.rand((n_groups, n_beams), generator=torch.Generator().manual_seed(1))
    for backend in BACKENDS:
        yield Contender(
            name=backend,
            run=partial(step_beams, scores, logprobs, n_beams, backend=backend),
        )
    yield Contender(
        name=SMART,
        run=lambda: (scores[:, :, None] + logprobs).flatten(1).topk(n_beams, dim=1),
        note="beam: ties go to any token",
    )
    yield Contender(name=NAIVE, run=lambda: _step_beam_by_beam(logprobs, scores))


def _step_beam_by_beam(logprobs: Tensor, scores: Tensor) -> list[list[tuple[float, int, int]]]:
    """Sort each beam's row, then the best of each: what is written first."""
    n_kept = logprobs.shape[1]
    kept = []
    for group, group_scores in zip(logprobs, scores.tolist(), strict=True):
        candidates = []
        for beam, row in enumerate(group):
            best = row.sort(descending=True)
            for value, token in zip(
                best.values[:n_kept].tolist(), best.indices[:n_kept].tolist(), strict=True
            ):
                candidates.append((-(group_scores[beam] + value), beam, token))
        kept.append(sorted(candidates)[:n_kept])
    return kept
