"""Stands in the sampler's place: notes each row's logits and choice, and can prescribe the token.

With prescribed tokens both paths walk through the same contexts, whatever they would choose
themselves, so that every position of an answer is compared and not only those before the first
difference. The path's own sampler runs all the same, and its choice is noted.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from harness.server.sampler import Chooser, Chosen

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as AbstractSequence

    from torch import Tensor

    from harness.server.phases import Stopwatch
    from harness.server.sequence import Sequence


class Heard(NamedTuple):
    """One position of one answer; seed and position are the keys of its noise.

    Shapes: raw, unfiltered and weights (vocab_size,): as the model gave them; after penalties and
        temperature; after the filters too. The last two are one where there is no filter.
    """

    raw: Tensor
    unfiltered: Tensor
    weights: Tensor
    token_id: int
    seed: int
    position: int


class Listener:
    """A sampler that is listened to."""

    def __init__(
        self,
        sampler: Chooser,
        prescribed: Mapping[int, AbstractSequence[int]] | None,
        *,
        has_filters: bool,
    ) -> None:
        self._sampler = sampler
        self._prescribed = prescribed
        self._has_filters = has_filters
        self.heard: dict[int, list[Heard]] = defaultdict(list)

    def choose(
        self, logits: Tensor, sequences: AbstractSequence[Sequence], watch: Stopwatch
    ) -> list[Chosen]:
        """Choose as the sampler does, note it, and give what is prescribed in its stead."""
        if not sequences:
            return []
        raw = logits.clone()
        weights = self.weigh(raw, sequences)
        has_filters = self._has_filters or sequences[0].mode.is_depth_clipped
        unfiltered = self.weigh(raw, list(map(_unfiltered, sequences))) if has_filters else weights
        chosen = self._sampler.choose(logits, sequences, watch)
        for row, sequence in enumerate(sequences):
            heard = Heard(
                raw[row],
                unfiltered[row],
                weights[row],
                token_id=chosen[row].token_id,
                seed=sequence.params.seed,
                position=len(sequence.tokens),
            )
            self.heard[sequence.id].append(heard)
        if self._prescribed is None:
            return chosen
        return [
            Chosen(self._prescribed[sequence.id][sequence.n_generated], is_faulty=False)
            for sequence in sequences
        ]

    def weigh(self, logits: Tensor, sequences: AbstractSequence[Sequence]) -> Tensor:
        """Give the logits that the sampler draws by."""
        return self._sampler.weigh(logits, sequences)


def _unfiltered(sequence: Sequence) -> Sequence:
    """The same sequence with every filter off, a depth clip too."""
    twin = copy.copy(sequence)
    twin.mode = sequence.mode._replace(is_depth_clipped=False)
    twin.params = replace(sequence.params, top_k=0, top_p=1.0, min_p=0.0)
    return twin
