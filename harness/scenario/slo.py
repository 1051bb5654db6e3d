"""What a service promises: `slo.toml`, from which runs are gated and Prometheus rules are written.

The same words as in a scenario: metrics by their names in docs/metrics.md, seconds, shares. An
objective `target = 0.99` with `limit_s = 0.5` reads: 99 % of the requests within 0.5 s, which is
P99 at most 0.5 s.
"""

import re
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from harness.scenario.schema import Line, Positive, Strict
from harness.scenario.toml_file import parse_toml, read_text, validate

EXAMPLE: Final = "scenarios/slo/chat.toml"
_LABEL: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]{0,63}")
RESERVED: Final = frozenset({"service", "objective", "severity", "alertname", "instance", "job"})
_SHORTEST_WINDOW_S: Final = 7 * 86_400.0
"""Of less, the shortest alert window would hold too few scrapes."""


class Objective(Strict):
    """One promise: a share `target` of the requests is good, over any `window`.

    Good is within `limit_s` for a latency, and answered at all for `availability`.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,31}$")]
    metric: Literal["ttft_s", "itl_s", "e2e_s", "availability"]
    limit_s: Positive | None = None
    target: Annotated[float, Field(ge=0.5, le=0.99999)]
    window: Annotated[str, Field(pattern=r"^[1-9][0-9]?d$")] = "30d"
    source: Literal["server", "load"] = "server"

    @property
    def window_s(self) -> float:
        """The window in seconds."""
        return int(self.window[:-1]) * 86_400.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.limit_s is None) != (self.metric == "availability"):
            raise ValueError(
                f"metric = {self.metric!r}: a latency needs limit_s, availability has none"
            )
        if self.window_s < _SHORTEST_WINDOW_S:
            raise ValueError(f"window = {self.window!r}: allowed is 7d to 99d")
        return self


Labels = Annotated[dict[str, Line], Field(max_length=16, default_factory=dict)]


class Slo(Strict):
    """The promises of one service.

    `labels` are put on every rule and alert; `select` says which series are the service's.
    """

    schema_version: Literal[1] = Field(alias="schema")
    service: Line
    labels: Labels
    select: Labels
    objectives: Annotated[list[Objective], Field(min_length=1, max_length=32)]

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        names = [name for name in (*self.labels, *self.select) if not _LABEL.fullmatch(name)]
        names += sorted(RESERVED & set(self.labels))
        if names:
            raise ValueError(
                f"{names[0]!r} cannot be a label here; allowed are letters, digits and _, and in "
                f"labels none of {', '.join(sorted(RESERVED))}"
            )
        return self

    @model_validator(mode="after")
    def _check(self) -> Self:
        names = [each.name for each in self.objectives]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"objectives named twice: {', '.join(twice)}")
        return self


def read_slo(path: Path) -> Slo:
    """The SLO in this file.

    Raises:
        ScenarioError: the file is missing, no TOML, or says something that is not allowed.
    """
    return validate(Slo, parse_toml(read_text(path, EXAMPLE), str(path)), str(path))
