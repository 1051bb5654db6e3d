"""The cases of every op, one file each: what `tailbreak bench kernels` runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol

from kernels.bench.case import Case
from kernels.bench.cases import (
    beam,
    depth_clip,
    divergence,
    entropy,
    logprobs,
    monte_carlo,
    paged_attention,
    penalties,
    sampling,
    similarity,
    state_codec,
)


class CaseBuilder(Protocol):
    """Gives the cases of one op."""

    def __call__(self, *, is_quick: bool) -> Iterator[Case]:
        """Quick: one small case, a look and no figure."""
        ...


OPS: Final[dict[str, CaseBuilder]] = {
    "sampling": sampling.build_cases,
    "penalties": penalties.build_cases,
    "logprobs": logprobs.build_cases,
    "entropy": entropy.build_cases,
    "paged_attention": paged_attention.build_cases,
    "state_codec": state_codec.build_cases,
    "monte_carlo": monte_carlo.build_cases,
    "divergence": divergence.build_cases,
    "similarity": similarity.build_cases,
    "beam": beam.build_cases,
    "depth_clip": depth_clip.build_cases,
}


def build_cases(ops: list[str], *, is_quick: bool) -> list[Case]:
    """Give the cases of `ops`, in the order of the list; a quick one is held to no target."""
    cases = [case for op in ops for case in OPS[op](is_quick=is_quick)]
    return [replace(case, target=None) for case in cases] if is_quick else cases
