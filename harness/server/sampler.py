"""Chooses the next token of every sequence that completed its context in a step.

Groups rows so that a sequence pays only for what it asked: penalties over the penalised rows,
filters and noise over the sampled rows, argmax over the rest. The arithmetic is in `kernels`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kernels.backend import BACKENDS, has_native
from kernels.depth_clip import DEFAULT_DEPTH
from kernels.logit_bias import add_bias, build_logit_bias
from kernels.logprobs import measure_logprobs
from kernels.penalties import Penalties, apply_penalties, build_penalty_state
from kernels.sampling import GREEDY_TEMPERATURE, build_settings, filter_logits, sample

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from harness.server.phases import Stopwatch
    from harness.server.sequence import Mode, SamplingParams, Sequence
    from kernels.backend import Backend
    from kernels.penalties import PenaltyState


TokenLogprobs = tuple[float, list[tuple[int, float]]]
"""Log-probability of the chosen token; ids and log-probabilities of the likeliest ones."""


class Chosen(NamedTuple):
    """One token; `is_faulty` when the model gave no finite logit to choose by."""

    token_id: int
    is_faulty: bool
    logprobs: TokenLogprobs | None = None


class Chooser(Protocol):
    """What an engine needs: `Sampler`, or something that listens in its place."""

    def choose(
        self, logits: Tensor, sequences: AbstractSequence[Sequence], watch: Stopwatch
    ) -> list[Chosen]:
        """Choose one token per row; `logits` is overwritten."""

    def weigh(self, logits: Tensor, sequences: AbstractSequence[Sequence]) -> Tensor:
        """Give the logits that `choose` would draw each row by."""


class Sampler:
    """Samples one step's rows.

    Control tokens (the turn markers of the chat template) are never drawn; stop tokens are not
    drawn where the length is prescribed: in reasoning steps and under `ignore_eos`.
    """

    def __init__(
        self,
        vocab_size: int,
        *,
        control_ids: AbstractSequence[int],
        stop_ids: AbstractSequence[int],
    ) -> None:
        self._vocab_size = vocab_size
        banned = (control_ids, (*control_ids, *stop_ids))
        self._biases = {
            backend: [
                build_logit_bias(
                    dict.fromkeys(ids, -math.inf), vocab_size=vocab_size, backend=backend
                )
                for ids in banned
            ]
            for backend in BACKENDS
            if backend == "torch" or has_native()
        }

    def choose(
        self, logits: Tensor, sequences: AbstractSequence[Sequence], watch: Stopwatch
    ) -> list[Chosen]:
        """Choose one token per row; `logits` is overwritten.

        Shapes: logits (len(sequences), vocab_size).
        """
        if not sequences:
            return []
        asked = [row for row, each in enumerate(sequences) if each.params.n_logprobs is not None]
        own = logits[asked] if asked else None
        self._exclude(logits, sequences)
        watch.lap("sample")
        self._penalise(logits, sequences)
        watch.lap("penalty")
        token_ids, is_faulty, *_ = sample(
            logits, _settings(sequences), backend=_backend_of(sequences)
        )
        chosen = [
            Chosen(*pair) for pair in zip(token_ids.tolist(), is_faulty.tolist(), strict=True)
        ]
        if own is not None:
            n_logprobs = [sequences[row].params.n_logprobs or 0 for row in asked]
            told = _logprobs(own, token_ids[asked], n_logprobs, _backend_of(sequences))
            for row, logprobs in zip(asked, told, strict=True):
                chosen[row] = chosen[row]._replace(logprobs=logprobs)
        watch.lap("sample")
        return chosen

    def weigh(self, logits: Tensor, sequences: AbstractSequence[Sequence]) -> Tensor:
        """Give the logits that `choose` would draw each row by, and leave `logits` as they are.

        Greedy rows end with the penalties, the others with temperature and filters.

        Shapes: logits (len(sequences), vocab_size) to the same.
        """
        weights = logits.clone()
        self._exclude(weights, sequences)
        self._penalise(weights, sequences)
        drawn = _drawn_rows(sequences)
        if drawn:
            settings = _settings([sequences[row] for row in drawn])
            kept = filter_logits(weights[drawn], settings, backend=_backend_of(sequences))
            weights[drawn] = kept.to(weights.dtype)
        return weights

    def _exclude(self, logits: Tensor, sequences: AbstractSequence[Sequence]) -> None:
        """Take out what may not be drawn in each sequence's present segment."""
        backend = _backend_of(sequences)
        free, prescribed = self._biases[backend]
        biases = [prescribed if has_prescribed_length(each) else free for each in sequences]
        add_bias(logits, biases, backend=backend)

    def _penalise(self, logits: Tensor, sequences: AbstractSequence[Sequence]) -> None:
        """Apply penalties to the rows that have any."""
        backend = _backend_of(sequences)
        states = [self._state_of(sequence, backend) for sequence in sequences]
        if any(state is not None for state in states):
            apply_penalties(logits, states, backend=backend)

    def _state_of(self, sequence: Sequence, backend: Backend) -> PenaltyState | None:
        """Give what its penalties have seen, begun with the prompt before the first draw."""
        if sequence.penalty_state is None and sequence.params.has_penalties:
            assert sequence.n_generated == 0
            sequence.penalty_state = build_penalty_state(
                penalties_of(sequence.params),
                sequence.tokens,
                vocab_size=self._vocab_size,
                backend=backend,
            )
        return sequence.penalty_state


def _backend_of(sequences: AbstractSequence[Sequence]) -> Backend:
    """Name what the mode runs on; all sequences of a step have the same."""
    return "cpu" if sequences[0].mode.is_fused else "torch"


def penalties_of(params: SamplingParams) -> Penalties:
    """Give the penalties among what is asked."""
    return Penalties(
        repetition=params.repetition,
        frequency=params.frequency,
        presence=params.presence,
        decay=params.decay,
        window=params.window,
    )


def has_prescribed_length(sequence: Sequence) -> bool:
    """Whether the present segment runs to its full length whatever the model would say."""
    return sequence.params.ignore_eos or sequence.segment.kind == "reasoning"


def _drawn_rows(sequences: AbstractSequence[Sequence]) -> list[int]:
    """Rows that are not greedy."""
    return [
        row
        for row, sequence in enumerate(sequences)
        if sequence.params.temperature >= GREEDY_TEMPERATURE
    ]


def _logprobs(
    logits: Tensor, token_ids: Tensor, n_logprobs: list[int], backend: Backend
) -> list[TokenLogprobs]:
    """Tell every row as many of the likeliest tokens as it asked for.

    Shapes: logits (len(n_logprobs), vocab_size), as the model gave them.
    """
    measured = measure_logprobs(logits, token_ids, max(n_logprobs), backend=backend)
    rows = zip(
        measured.chosen.tolist(), measured.top_ids.tolist(), measured.top.tolist(), strict=True
    )
    return [
        (chosen, list(zip(ids[:count], values[:count], strict=True)))
        for (chosen, ids, values), count in zip(rows, n_logprobs, strict=True)
    ]


def depth_of(mode: Mode) -> float:
    """Give how many nats below the likeliest token may still be drawn."""
    return DEFAULT_DEPTH if mode.is_depth_clipped else math.inf


def _settings(sequences: AbstractSequence[Sequence]) -> NDArray[np.void]:
    """What every row asks for.

    Shapes: (len(sequences),) of `SETTINGS`.
    """
    params = [sequence.params for sequence in sequences]
    return build_settings(
        len(sequences),
        temperature=[each.temperature for each in params],
        top_k=[each.top_k for each in params],
        min_p=[each.min_p for each in params],
        top_p=[each.top_p for each in params],
        depth=depth_of(sequences[0].mode),
        seed=[each.seed for each in params],
        position=[len(sequence.tokens) for sequence in sequences],
    )
