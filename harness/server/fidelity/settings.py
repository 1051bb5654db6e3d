"""The ways of sampling that are compared: each filter and penalty in one of them at least."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Final, NamedTuple

from harness.base.rng import seed_for
from harness.server.sequence import SamplingParams
from kernels.sampling import GREEDY_TEMPERATURE


class SamplingSetting(NamedTuple):
    """A name and its values; the seed is each answer's own."""

    name: str
    params: SamplingParams

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken and nothing drawn."""
        return self.params.temperature < GREEDY_TEMPERATURE

    @property
    def has_filters(self) -> bool:
        """Whether tokens are excluded by their probability."""
        return self.params.top_k > 0 or self.params.top_p < 1 or self.params.min_p > 0

    def seeded(self, root: int, number: int) -> SamplingParams:
        """The values for one answer."""
        return replace(self.params, seed=seed_for(root, "fidelity", self.name, number) >> 1)

    def told(self) -> dict[str, float]:
        """Values that are not off, as a scenario names them."""
        names = {"repetition": "repetition_penalty", "frequency": "frequency_penalty",
                 "presence": "presence_penalty", "decay": "penalty_decay",
                 "window": "penalty_window"}  # fmt: skip
        off = asdict(SamplingParams(temperature=-1.0, ignore_eos=True))
        return {
            names.get(name, name): value
            for name, value in asdict(self.params).items()
            if value != off[name]
        }


def _setting(name: str, **values: float) -> SamplingSetting:
    return SamplingSetting(name, SamplingParams(ignore_eos=True, **values))  # type: ignore[arg-type]


SETTINGS: Final = (
    _setting("greedy", temperature=0.0),
    _setting("greedy, penalties", temperature=0.0, repetition=1.2, frequency=0.5, presence=0.3),
    _setting("temperature", temperature=1.0),
    _setting("penalties", temperature=0.9, repetition=1.2, frequency=0.6, presence=0.4),
    _setting("top-k, top-p", temperature=0.8, top_k=50, top_p=0.9),
    _setting(
        "penalties, min-p",
        temperature=1.2,
        min_p=0.05,
        frequency=0.4,
        repetition=1.1,
        decay=0.8,
        window=16,
    ),
)
