"""Merging of beams that say the same, beside a loop over pairs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch

from kernels.bench.case import BACKENDS, NAIVE, Case
from kernels.bench.timing import Contender
from kernels.similarity import merge_similar

if TYPE_CHECKING:
    from torch import Tensor

THRESHOLD = 0.85


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """Groups of beams as chains have them; the width is that of a small model's hidden state."""
    if is_quick:
        yield _case(2, 4, 32)
        return
    for n_groups, n_items, width in ((1, 8, 576), (16, 8, 576), (16, 32, 576)):
        yield _case(n_groups, n_items, width)


def _case(n_groups: int, n_items: int, width: int) -> Case:
    return Case(
        op="similarity",
        shape=f"{n_groups} groups of {n_items}, width {width}",
        n_bytes=4 * n_groups * n_items * width,
        contenders=lambda: list(_contenders(n_groups, n_items, width)),
    )


def _contenders(n_groups: int, n_items: int, width: int) -> Iterator[Contender]:
    chance = torch.Generator().manual_seed(1)
    centres = torch.randn((n_groups, n_items // 2, width), generator=chance)
    noise = torch.randn((n_groups, n_items, width), generator=chance)
    vectors = centres.repeat(1, 2, 1) + 0.3 * noise
    scores = torch.rand((n_groups, n_items), generator=chance)
    for backend in BACKENDS:
        yield Contender(
            name=backend,
            run=partial(merge_similar, vectors, scores, THRESHOLD, backend=backend),
        )
    yield Contender(name=NAIVE, run=lambda: _merge_pairwise(vectors, scores))


def _merge_pairwise(vectors: Tensor, scores: Tensor) -> list[list[int]]:
    """One torch call for each pair: what unvectorised similarity costs."""
    merged = []
    for group, order in zip(vectors, scores.argsort(dim=1, descending=True).tolist(), strict=True):
        into = list(range(len(group)))
        for place, item in enumerate(order):
            for likelier in order[:place]:
                if torch.cosine_similarity(group[likelier], group[item], dim=0) > THRESHOLD:
                    into[item] = likelier
                    break
        merged.append(into)
    return merged
