"""Depth clips: of a camera's field by its surroundings, of a vocabulary's logits.

Beside ours the naive way: every window gathered as a copy of its own, 25 numbers for a pixel.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import unfold

from kernels.bench.case import BACKENDS, NAIVE, Case
from kernels.bench.timing import Contender
from kernels.depth_clip import CEILING, DEFAULT_DEPTH, FLOOR, clip_depth_field, clip_logits

if TYPE_CHECKING:
    from torch import Tensor

WINDOW, N_SIGMA = 5, 3.0


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """Frames of 640 x 480 and 1280 x 720; logits of eight sequences."""
    for height, width in ((12, 16),) if is_quick else ((480, 640), (720, 1280)):
        yield Case(
            op="depth_clip",
            shape=f"field {width} x {height}, window {WINDOW}",
            n_bytes=9 * height * width,
            n_items=height * width,
            item="pixels",
            contenders=partial(_field_contenders, height, width),
        )
    n_seqs, vocab_size = (2, 100) if is_quick else (8, 128256)
    yield Case(
        op="depth_clip",
        shape=f"logits B={n_seqs} V={vocab_size}",
        n_bytes=8 * n_seqs * vocab_size,
        contenders=partial(_logit_contenders, n_seqs, vocab_size),
    )


def _field_contenders(height: int, width: int) -> list[Contender]:
    chance = torch.Generator().manual_seed(1)
    depth = 1 + 8 * torch.rand((height, width), generator=chance)
    valid = torch.rand((height, width), generator=chance) > 0.1
    ours = [
        Contender(
            name=backend,
            run=partial(
                clip_depth_field, depth, valid, window=WINDOW, n_sigma=N_SIGMA, backend=backend
            ),
        )
        for backend in BACKENDS
    ]
    return [*ours, Contender(name=NAIVE, run=partial(_clip_by_copies, depth, valid))]


def _logit_contenders(n_seqs: int, vocab_size: int) -> list[Contender]:
    logits = torch.randn((n_seqs, vocab_size), generator=torch.Generator().manual_seed(1))
    return [
        Contender(name=backend, run=partial(clip_logits, logits, DEFAULT_DEPTH, backend=backend))
        for backend in BACKENDS
    ]


def _clip_by_copies(depth: Tensor, valid: Tensor) -> Tensor:
    """Gather all windows, then mean and spread of each."""
    both = torch.stack((torch.where(valid, depth, 0), valid.float()))[:, None]
    windows, counts = unfold(both, WINDOW, padding=WINDOW // 2)
    middle = WINDOW * WINDOW // 2
    windows[middle] = counts[middle] = 0
    n = counts.sum(0)
    mean = windows.sum(0) / n
    sigma = ((windows - mean) * counts).square().sum(0).div(n).sqrt()
    low = torch.where(n >= 2, mean - N_SIGMA * sigma, FLOOR).clamp(FLOOR, CEILING)
    high = torch.where(n >= 2, mean + N_SIGMA * sigma, CEILING).clamp(FLOOR, CEILING)
    clipped = depth.clamp(low.view_as(depth), high.view_as(depth))
    return torch.where(valid, clipped, depth)
