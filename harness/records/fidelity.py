"""`fidelity.json`, schema 1: whether accelerated paths answer as the baseline does, as measured.

Written by `tailbreak fidelity` (`harness.server.fidelity`), read by the findings. What is infinite
is null here, and counted beside it; docs/fidelity.md explains every field.
"""

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.base.errors import RecordError
from harness.records.run import RunFolder

FILE: Final = "fidelity.json"


class Part(BaseModel):
    """Base of every part: frozen, closed, no NaN."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )


class Spread(Part):
    """A divergence over many positions: mean, 99.9 % quantile, largest; null is infinite."""

    mean: float | None
    p999: float | None
    maximum: float | None


class Positions(Part):
    """Distributions at the positions of the baseline's own answers.

    Attributes:
        n: positions compared.
        n_close: left out, because a filter's cut lies within rounding of a token.
        n_infinite: where one path excludes what the other allows.
        pass_rate: share with KL at most `pass_limit`.
    """

    n: int
    n_close: int
    n_infinite: int
    kl: Spread
    reverse_kl: Spread
    js: Spread
    variation: Spread
    same_top1: float
    pass_limit: float
    pass_rate: float


class Choices(Part):
    """Tokens chosen at the same positions with the same seeds.

    Attributes:
        n_close: not compared, because the best two tokens lie within rounding of each other.
        n_different: compared and different.
    """

    n: int
    n_close: int
    n_different: int


class Draws(Part):
    """Tests of draws; each p-value holds together with all others of its path (Holm).

    Attributes:
        n: draws of each path.
        baseline: p-value of the baseline's draws against the exact distribution.
        path: p-value of the path's draws against the exact distribution of its own logits.
        paths: p-value of one path's draws against the other's; null where they may differ.
        divergence: estimated KL of the path's draws from the exact distribution, bias taken off.
    """

    n: int
    baseline: float
    path: float
    paths: float | None
    divergence: float | None


class Setting(Part):
    """One way of sampling, compared; `problems` is what is past its limit, in words."""

    name: str
    params: dict[str, float]
    positions: Positions
    choices: Choices
    draws: Draws | None
    problems: list[str]


class Path(Part):
    """One set of features beside the baseline.

    Attributes:
        asked: the value of X-MC-Accel.
        lossy: features among them that may change the answer, within their own limits.
        limits: what was allowed, in words.
        n_cached: prompt tokens that came from the prefix cache meanwhile.
        n_evictions: sequences that were evicted and recomputed meanwhile.
    """

    asked: str
    features: list[str]
    lossy: list[str]
    limits: list[str]
    n_cached: int
    n_evictions: int
    settings: list[Setting]
    caveats: list[str]

    @property
    def problems(self) -> list[str]:
        """Everything that is past its limit."""
        return [problem for setting in self.settings for problem in setting.problems]

    @property
    def verdict(self) -> Literal["same", "within limits", "differs"]:
        """The answer in a word: exact features are the same, lossy ones within their limits."""
        if self.problems:
            return "differs"
        return "within limits" if self.lossy else "same"


class Fidelity(Part):
    """All paths of one comparison."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    model: str
    fingerprint: str
    seed: int
    baseline: str
    alpha: float
    options: dict[str, int]
    paths: list[Path]
    duration_s: float


def read_fidelity(run: RunFolder) -> Fidelity:
    """The comparison that a run was begun with.

    Raises:
        RecordError: its file is missing or damaged.
    """
    value = run.read_json(FILE)
    try:
        return Fidelity.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise RecordError(f"{run.path / FILE}: damaged: {where}: {first['msg']}") from error
