"""Chooses the next token of every sequence that completed its context in a step.

Groups rows so that a sequence pays only for what it asked: penalties over the penalised rows,
filters and noise over the sampled rows, argmax over the rest. The arithmetic is in `kernels`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch

from kernels.logprobs import measure_logprobs
from kernels.penalties import apply_penalties
from kernels.sampling import GREEDY_TEMPERATURE, choose_greedy, filter_logits, sample

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from torch import Tensor

    from harness.server.phases import Stopwatch
    from harness.server.sequence import Sequence


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
        self._bias = torch.zeros((2, vocab_size))
        self._bias[:, list(control_ids)] = -torch.inf
        self._bias[1, list(stop_ids)] = -torch.inf

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
        token_ids, is_faulty = choose_greedy(logits)
        drawn = _drawn_rows(sequences)
        if drawn:
            rows = torch.tensor(drawn)
            token_ids[rows] = _draw(logits[rows], [sequences[row] for row in drawn])
        chosen = [
            Chosen(*pair) for pair in zip(token_ids.tolist(), is_faulty.tolist(), strict=True)
        ]
        if own is not None:
            n_logprobs = [sequences[row].params.n_logprobs or 0 for row in asked]
            for row, logprobs in zip(
                asked, _logprobs(own, token_ids[asked], n_logprobs), strict=True
            ):
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
            filters = _filters([sequences[row] for row in drawn])
            weights[drawn] = filter_logits(weights[drawn], **filters)
        return weights

    def _exclude(self, logits: Tensor, sequences: AbstractSequence[Sequence]) -> None:
        """Take out what may not be drawn in each sequence's present segment."""
        logits += self._bias[[int(has_prescribed_length(sequence)) for sequence in sequences]]

    def _penalise(self, logits: Tensor, sequences: AbstractSequence[Sequence]) -> None:
        """Apply penalties to the rows that have any."""
        rows = [row for row, sequence in enumerate(sequences) if sequence.params.has_penalties]
        if not rows:
            return
        counts = [sequences[row].require_counts(self._vocab_size) for row in rows]
        params = [sequences[row].params for row in rows]
        logits[rows] = apply_penalties(
            logits[rows],
            prompt_seen=torch.from_numpy(np.stack([each.prompt_seen for each in counts])),
            output_counts=torch.from_numpy(np.stack([each.output_counts for each in counts])),
            repetition=torch.tensor([each.repetition for each in params]),
            frequency=torch.tensor([each.frequency for each in params]),
            presence=torch.tensor([each.presence for each in params]),
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


def _logprobs(logits: Tensor, token_ids: Tensor, n_logprobs: list[int]) -> list[TokenLogprobs]:
    """Tell every row as many of the likeliest tokens as it asked for.

    Shapes: logits (len(n_logprobs), vocab_size), as the model gave them.
    """
    measured = measure_logprobs(logits, token_ids, max(n_logprobs))
    rows = zip(
        measured.chosen.tolist(), measured.top_ids.tolist(), measured.top.tolist(), strict=True
    )
    return [
        (chosen, list(zip(ids[:count], values[:count], strict=True)))
        for (chosen, ids, values), count in zip(rows, n_logprobs, strict=True)
    ]


def _draw(logits: Tensor, sequences: AbstractSequence[Sequence]) -> Tensor:
    """Draw one token for each row.

    Shapes: logits (len(sequences), vocab_size) to (len(sequences),) int64.
    """
    return sample(
        logits,
        **_filters(sequences),
        seeds=torch.tensor([sequence.params.seed for sequence in sequences]),
        positions=torch.tensor([len(sequence.tokens) for sequence in sequences]),
    ).token_ids


def _filters(sequences: AbstractSequence[Sequence]) -> dict[str, Tensor]:
    """Temperature and filters of every row.

    Shapes: each (len(sequences),).
    """
    params = [sequence.params for sequence in sequences]
    return {
        "temperature": torch.tensor([each.temperature for each in params]),
        "top_k": torch.tensor([each.top_k for each in params]),
        "min_p": torch.tensor([each.min_p for each in params]),
        "top_p": torch.tensor([each.top_p for each in params]),
    }
