"""Draws many tokens from few contexts by a path's own sampler, and tests them.

Every draw has a seed of its own and goes through the sampler in batches as large as the engine's,
so noise that depends on the slot shows as much as a wrong distribution. What is exact is computed
in float64 by the kernels' references from the path's own logits.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from harness.base.rng import seed_for
from harness.server.fidelity.trace import sequence_for
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sampler import depth_of, penalties_of
from kernels.penalties import reference_penalties
from kernels.sampling import reference_probabilities

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from numpy.typing import NDArray
    from torch import Tensor

    from harness.server.engine import Engine
    from harness.server.fidelity.settings import SamplingSetting
    from harness.server.fidelity.work import Work
    from harness.server.sampler import Chooser
    from harness.server.sequence import Mode, SamplingParams, Sequence


class Context(NamedTuple):
    """A place in an answer: after `n_output` tokens of the answer to a work."""

    work: int
    n_output: int


CONTEXTS = (Context(0, 20), Context(3, 3), Context(5, 12), Context(7, 23))


class Drawn(NamedTuple):
    """Counted draws from one context.

    Shapes: both (vocab_size,).
    """

    counts: NDArray[np.int64]
    exact: NDArray[np.float64]


def draw_context(
    engine: Engine,
    work: Work,
    answer: AbstractSequence[int],
    raw: Tensor,
    *,
    mode: Mode,
    setting: SamplingSetting,
    banned: list[int],
    n_draws: int,
    batch: int,
    seed: int,
) -> Drawn:
    """Draw `n_draws` tokens that could follow `answer`, of logits `raw`.

    Shapes: raw (vocab_size,).
    """
    sequences = [sequence_for(work, number, mode, setting, seed=0) for number in range(batch)]
    _go_to(answer, sequences, engine.sampler, raw)
    counts = np.zeros(len(raw), dtype=np.int64)
    watch = Stopwatch(GcPauses())
    for begin in range(0, n_draws, batch):
        drawing = sequences[: n_draws - begin]
        for number, each in enumerate(drawing, begin):
            draw_seed = seed_for(seed, "draw", setting.name, number) >> 1
            each.params = replace(setting.params, seed=draw_seed)
        chosen = engine.sampler.choose(raw.repeat(len(drawing), 1), drawing, watch)
        np.add.at(counts, [each.token_id for each in chosen], 1)
    exact = exact_probabilities(
        raw, work, answer, setting.params, banned=banned, depth=depth_of(mode)
    )
    return Drawn(counts, exact)


def _go_to(
    answer: AbstractSequence[int],
    sequences: AbstractSequence[Sequence],
    sampler: Chooser,
    raw: Tensor,
) -> None:
    """Let sequences have generated `answer`; penalties count from the sampler's first look on."""
    sampler.weigh(raw.repeat(len(sequences), 1), sequences)
    for sequence in sequences:
        for token_id in answer:
            sequence.append_generated(token_id)


def exact_probabilities(
    raw: Tensor,
    work: Work,
    answer: AbstractSequence[int],
    params: SamplingParams,
    *,
    banned: list[int],
    depth: float,
) -> NDArray[np.float64]:
    """What the next token's distribution is, by the references.

    Shapes: raw (vocab_size,) to the same.
    """
    logits = raw.double().numpy().copy()
    logits[banned] = -np.inf
    penalised = reference_penalties(
        logits[None],
        prompt_ids=[work.tokens],
        output_ids=[list(answer)],
        penalties=[penalties_of(params)],
    )
    return reference_probabilities(
        penalised[0],
        temperature=params.temperature,
        top_k=params.top_k,
        min_p=params.min_p,
        top_p=params.top_p,
        depth=depth,
    )
