"""What a law file may say: how latency depends on a request, and what an analysis must find.

One frozen, strict model per concept, defaults here and nowhere else. Drawing latencies from a law
is `latency.py`; reading files is `read_law` at the end.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from harness.scenario.schema import Line, Positive, Share, Strict
from harness.scenario.toml_file import parse_toml, read_text, validate

EXAMPLE = "scenarios/laws/jump.toml"
MAX_LATENCY_S = 600.0
Seconds = Annotated[float, Field(ge=0.0, le=MAX_LATENCY_S)]
Place = Annotated[float, Field(ge=1e-6, le=1e9)]
Factor = Literal[
    "prompt_tokens",
    "cot_depth",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "in_flight",
]
Kind = Literal["jump", "kink", "both", "staircase", "gradual", "none"]
Placed = ("jump", "kink", "both")


class Break(Strict):
    """A change of regime of one curve.

    Attributes:
        kind: a step between two values of the factor, or a change of slope.
        at: the place; a factor above it is past the break.
        size: of a jump the relative step (0.4 is +40 %); of a kink the change of the slope of the
            log latency, log units per octave of the factor.
    """

    kind: Literal["jump", "kink"]
    at: Place
    size: float

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.size == 0 or (self.kind == "jump" and self.size <= -1):
            raise ValueError("size must not be 0, and of a jump must be above -1 (-100 %)")
        return self


class Hyperbola(Strict):
    """Waiting in line: scale_s * x / (capacity - x), held at 99 % of the capacity."""

    capacity: Place
    scale_s: Seconds


class Noise(Strict):
    """One multiplicative draw per request, median 1.

    Attributes:
        cv: coefficient of variation of its log-normal part.
        ar: correlation of the log-normal part with that of the request that arrived before.
        tail_share: share of requests that take a Pareto factor (at least 1) on top.
        tail_alpha: exponent of that Pareto factor; small is heavy.
    """

    cv: Annotated[float, Field(ge=0.0, le=2.0)] = 0.0
    ar: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    tail_share: Share = 0.0
    tail_alpha: Annotated[float, Field(gt=0.5, le=20.0)] = 2.0


class Curve(Strict):
    """A latency over one factor x: (base_s + slope_s * x + hyperbola) * breaks * noise.

    Attributes:
        factor: what x is; `in_flight` counts the requests in the server on arrival, itself too.
        base_s: latency at x = 0.
        slope_s: seconds per unit of x.
        hyperbola: a smooth convex part.
        breaks: changes of regime; each multiplies the curve.
        noise: one draw per request.
    """

    factor: Factor = "prompt_tokens"
    base_s: Seconds
    slope_s: Seconds = 0.0
    hyperbola: Hyperbola | None = None
    breaks: Annotated[list[Break], Field(max_length=16)] = Field(default_factory=list)
    noise: Noise = Noise()


class Drift(Strict):
    """Every latency grows over time: * (1 + per_s * seconds since the first request)."""

    per_s: Annotated[float, Field(gt=0.0, le=10.0)]


class Stall(Strict):
    """The whole process stands still: nothing is read, nothing is sent.

    Attributes:
        length_s: how long.
        period_s: time from the end of one stall to the start of the next.
        at_request: instead of a period, once, on arrival of the request with this number (from 1).
    """

    length_s: Annotated[float, Field(gt=0.0, le=10.0)]
    period_s: Positive | None = None
    at_request: Annotated[int, Field(ge=1)] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.period_s is None) == (self.at_request is None):
            raise ValueError("a stall has either period_s or at_request")
        return self


class Failures(Strict):
    """Every n-th request is answered with an error status."""

    every: Annotated[int, Field(ge=1)]
    status: Annotated[int, Field(ge=400, le=599)] = 500


class Truth(Strict):
    """What a right analysis says about P99 of TTFT over `ttft.factor`.

    Attributes:
        found: the kinds that are right.
        within_steps: how many grid steps from a planted place the found one may lie.
    """

    found: Annotated[list[Kind], Field(min_length=1)]
    within_steps: Annotated[int, Field(ge=1, le=10)] = 1


class Law(Strict):
    """One planted law, complete."""

    schema_version: Literal[1] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    title: Line
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    tokenizes: bool = True
    ttft: Curve
    itl: Curve = Curve(base_s=0.001)
    drift: Drift | None = None
    stall: Stall | None = None
    failures: Failures | None = None
    truth: Truth

    @model_validator(mode="after")
    def _check(self) -> Self:
        places = {item.at for item in self.ttft.breaks}
        for kind in self.truth.found:
            if kind in Placed and len(places) != 1:
                raise ValueError(
                    f"truth.found names a {kind}; ttft.breaks has {len(places)} places, needs 1"
                )
            if kind == "staircase" and len(places) < 2:
                raise ValueError("truth.found names a staircase; ttft.breaks needs two places")
        return self

    @property
    def place(self) -> float | None:
        """Where the one planted break of TTFT lies; None for none or several."""
        places = {item.at for item in self.ttft.breaks}
        return places.pop() if len(places) == 1 else None


def read_law(path: Path) -> Law:
    """The law in this file.

    Raises:
        ScenarioError: the file is missing, no TOML, or says something that is not allowed.
    """
    return parse_law(read_text(path, EXAMPLE), str(path))


def parse_law(text: str, file: str) -> Law:
    """The law in this TOML text; `file` names it in messages.

    Raises:
        ScenarioError: with every problem found.
    """
    return validate_law(parse_toml(text, file), file)


def validate_law(values: dict[str, Any], file: str) -> Law:
    """The law that these plain values describe.

    Raises:
        ScenarioError: with every problem found.
    """
    return validate(Law, values, file)
