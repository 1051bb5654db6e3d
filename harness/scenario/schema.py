"""What a scenario may say: one frozen, strict model per concept, defaults here and nowhere else.

Reading files is `read.py`; this module knows no file. Unknown keys are errors: a misspelt key that
is dropped in silence would make an old file appear to work without the setting it asks for.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from harness.scenario.acceleration import FACTOR, Acceleration

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Rate = Annotated[float, Field(ge=0.001, le=1_000_000.0)]
Timeout = Annotated[float, Field(gt=0.0, le=86_400.0)]
Tokens = Annotated[int, Field(ge=1, le=1_000_000)]
MAX_CELLS = 10_000
LEAST_FOR_BREAK = 5
"""Values of an axis."""
MAX_REQUESTS = 10_000_000
"""Of a whole plan, which is held in memory."""


def _require_printable(text: str) -> str:
    """Refuse what a terminal or a page would obey instead of show."""
    if not text.isprintable():
        raise ValueError(f"got {text!r}, allowed is one line without control characters")
    return text


Line = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_require_printable)]
Api = Literal["openai-chat", "openai-completions", "llamacpp-chat", "llamacpp-completions"]
OmittableField = Literal[
    "temperature", "top_p", "top_k", "min_p",
    "frequency_penalty", "presence_penalty", "repetition_penalty", "seed", "stream_options",
]  # fmt: skip
LatencyMetric = Literal["ttft_s", "ttfo_s", "itl_s", "tpot_s", "e2e_s"]


class Strict(BaseModel):
    """Base of every concept: frozen, no unknown key, no coercion from text."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class BundledServer(Strict):
    """Options of the reference server that is started when no URL is given."""

    kv_tokens: Annotated[int, Field(ge=64, le=10_000_000, multiple_of=16)] = 2560
    max_num_seqs: Annotated[int, Field(ge=1, le=256)] = 8
    max_num_batched_tokens: Annotated[int, Field(ge=16, le=1_000_000)] = 512
    max_model_len: Annotated[int, Field(ge=16, le=1_000_000)] = 2048
    threads: Annotated[int, Field(ge=1, le=1024)] | None = None
    pool: Annotated[list[Line], Field(max_length=16)] = []
    faults: Annotated[str, Field(max_length=500)] | None = None


class Target(Strict):
    """Who is measured.

    `omit`: fields that the target refuses, left out of every request. `service` and `version` are
    what its metrics are labelled with; the model's name and `unknown` unless given.
    """

    url: str | None = None
    api: Api = "openai-chat"
    omit: Annotated[list[OmittableField], Field(max_length=9)] = []
    model: Line = "tiny"
    service: Line | None = None
    version: Line = "unknown"
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z_][A-Z0-9_]*$")
    server: BundledServer = BundledServer()

    @field_validator("url")
    @classmethod
    def _check_url(cls, url: str | None) -> str | None:
        if url is not None and not _is_plain(url):
            raise ValueError(
                "allowed is http://host:port, optionally a path; no credentials, no query: a key "
                "goes into the environment variable that target.api_key_env names"
            )
        return url


def _is_plain(url: str) -> bool:
    """Whether this is a URL of a host, without credentials and query."""
    try:
        has_port = urlsplit(url).port != 0
    except ValueError:
        return False
    return has_port and re.fullmatch(r"https?://[^\s/@?#]+(/[^\s?#]*)?", url) is not None


class Load(Strict):
    """How much is sent, and when.

    Closed loop: `concurrency` requests in flight. Open loop: `rate_rps` by an absolute schedule.
    """

    mode: Literal["closed", "open"] = "closed"
    concurrency: Annotated[int, Field(ge=1, le=10_000)] = 8
    rate_rps: Rate | None = None
    arrivals: Literal["constant", "poisson"] = "poisson"
    users: Annotated[int, Field(ge=1, le=10_000)] = 64
    requests_per_cell: Annotated[int, Field(ge=1, le=10_000_000)] = 512
    segments_per_cell: Annotated[int, Field(ge=1, le=1000)] = 4
    warmup_requests: Annotated[int, Field(ge=0, le=100_000)] = 8
    think_time_s: Annotated[float, Field(ge=0.0, le=3600.0)] = 0.0
    connect_timeout_s: Timeout = 10.0
    idle_timeout_s: Timeout = 60.0
    total_timeout_s: Timeout = 300.0

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode == "closed" and self.rate_rps is not None:
            raise ValueError("rate_rps belongs to mode = 'open'; a closed loop has concurrency")
        if self.segments_per_cell > self.requests_per_cell:
            raise ValueError("segments_per_cell exceeds requests_per_cell")
        return self


class Output(Strict):
    """How long the answers are: uniform on tokens - spread .. tokens + spread."""

    tokens: Tokens = 8
    spread: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    ignore_eos: bool = True

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.spread >= self.tokens:
            raise ValueError(f"spread must stay below tokens ({self.tokens})")
        return self


class Sampling(Strict):
    """Sampling values sent with every request; an axis of the same name overrides one."""

    temperature: Annotated[float, Field(ge=0.0, le=2.0)] = 0.0
    top_p: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    top_k: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    min_p: Share = 0.0
    frequency_penalty: Annotated[float, Field(ge=-2.0, le=2.0)] = 0.0
    presence_penalty: Annotated[float, Field(ge=-2.0, le=2.0)] = 0.0
    repetition_penalty: Annotated[float, Field(gt=0.0, le=2.0)] = 1.0


class Cot(Strict):
    """Chain of thought: depth steps of step_tokens each, then the answer.

    `server`: the bundled server's loop, one call. `chained`: one call for each step on any server,
    each continuing the one before.
    """

    mode: Literal["server", "chained"] = "server"
    depth: Annotated[int, Field(ge=0, le=16)] = 0
    step_tokens: Annotated[int, Field(ge=1, le=256)] = 16

    @field_validator("mode", mode="before")
    @classmethod
    def _check_mode(cls, mode: Any) -> Any:
        if mode == "budget":
            raise ValueError(
                "got 'budget', which is not in this version; allowed are 'server' (the bundled "
                "server's loop) and 'chained' (depth calls on any server)"
            )
        return mode


AxisLength = Field(min_length=1, max_length=64)
Depth = Annotated[int, Field(ge=0, le=16)]
Concurrency = Annotated[int, Field(ge=1, le=10_000)]
Temperature = Annotated[float, Field(ge=0.0, le=2.0)]
AdditivePenalty = Annotated[float, Field(ge=-2.0, le=2.0)]
RepetitionPenalty = Annotated[float, Field(gt=0.0, le=2.0)]


class Axes(Strict):
    """The grid: every combination of the listed values is a cell."""

    prompt_tokens: Annotated[list[Tokens], AxisLength] | None = None
    cot_depth: Annotated[list[Depth], AxisLength] | None = None
    frequency_penalty: Annotated[list[AdditivePenalty], AxisLength] | None = None
    presence_penalty: Annotated[list[AdditivePenalty], AxisLength] | None = None
    repetition_penalty: Annotated[list[RepetitionPenalty], AxisLength] | None = None
    temperature: Annotated[list[Temperature], AxisLength] | None = None
    concurrency: Annotated[list[Concurrency], AxisLength] | None = None
    rate_rps: Annotated[list[Rate], AxisLength] | None = None
    accelerated: Annotated[list[Acceleration], AxisLength] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        for name, values in self.given().items():
            if len(set(values)) != len(values):
                raise ValueError(f"{name} lists a value twice: {values}")
        if not self.given():
            raise ValueError("the grid is empty: give at least one axis, such as prompt_tokens")
        return self

    def given(self) -> dict[str, list[Any]]:
        """Axes that the scenario lists, in the order of this class."""
        values = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: value for name, value in values.items() if value is not None}


class Analysis(Strict):
    """What is asked of the records."""

    metric: LatencyMetric = "ttft_s"
    q: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.99
    confidence: Annotated[float, Field(ge=0.5, lt=1.0)] = 0.95
    axis: str = "prompt_tokens"
    min_jump: Positive = 0.10
    min_kink: Positive = 0.20


class Stop(Strict):
    """Measure each cell until its quantile is known this well, and no longer.

    `half_width`: of the quantile's interval, as a share of the quantile. `agreement`: how alike
    fresh starts of the server have to be, R-hat at most 1.01 (`strict`) or 1.05 (`loose`).
    """

    half_width: Annotated[float, Field(ge=0.002, le=0.5)] = 0.05
    agreement: Literal["strict", "loose"] = "strict"


class Refine(Strict):
    """Add cells where a break is, until its place is known this well, and confirm it.

    `within_octaves`: length of the place's interval, in doublings of the axis.
    """

    within_octaves: Annotated[float, Field(ge=0.01, le=2.0)] = 0.1


class Limits(Strict):
    """When a run fails."""

    failed_share: Share = 0.01
    slo_ttft_s: Positive | None = None
    slo_e2e_s: Positive | None = None
    regression: Positive = 0.10


class Scenario(Strict):
    """One load test, complete.

    `fidelity`: before the load, compare the answers of every accelerated value with the baseline's.
    """

    schema_version: Literal[1] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")
    title: Line
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    prompt_tokens: Tokens = 128
    target: Target = Target()
    load: Load = Load()
    output: Output = Output()
    sampling: Sampling = Sampling()
    cot: Cot = Cot()
    axes: Axes
    analysis: Analysis = Analysis()
    stop: Stop | None = None
    refine: Refine | None = None
    limits: Limits = Limits()
    fidelity: bool = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        axes = self.axes.given()
        if self.fidelity and self.target.url is not None:
            raise ValueError(
                "fidelity = true compares answers inside the bundled server; with target.url leave "
                "it out"
            )
        if self.fidelity and not any(axes.get("accelerated", ())):
            raise ValueError(
                "fidelity = true compares accelerated answers with the baseline's; it needs "
                "axes.accelerated with true or a list of features"
            )
        if "rate_rps" in axes and self.load.mode != "open":
            raise ValueError("axes.rate_rps needs load.mode = 'open'")
        if "concurrency" in axes and self.load.mode != "closed":
            raise ValueError("axes.concurrency needs load.mode = 'closed'")
        if self.load.mode == "open" and (self.load.rate_rps is None) == ("rate_rps" not in axes):
            raise ValueError("an open loop needs one of load.rate_rps and axes.rate_rps")
        unsent = sorted(set(self.target.omit) & set(axes))
        if unsent:
            raise ValueError(f"target.omit leaves out {', '.join(unsent)}, which axes vary")
        n_cells = math.prod(map(len, axes.values()))
        if n_cells > MAX_CELLS:
            raise ValueError(f"the axes make {n_cells:,} cells, allowed are at most {MAX_CELLS:,}")
        n_warmup = self.load.segments_per_cell * self.load.warmup_requests
        n_requests = n_cells * (self.load.requests_per_cell + n_warmup)
        if n_requests > MAX_REQUESTS:
            raise ValueError(
                f"{n_cells:,} cells of load.requests_per_cell and load.segments_per_cell x "
                f"load.warmup_requests make {n_requests:,} requests, allowed are at most "
                f"{MAX_REQUESTS:,}"
            )
        self._check_axis(axes)
        self._check_refine(axes)
        return self

    def _check_refine(self, axes: Mapping[str, Sequence[Any]]) -> None:
        """Require an axis between whose values there are others, and enough of them for a break."""
        if self.refine is None:
            return
        axis = self.analysis.axis
        if axis == FACTOR:
            raise ValueError(f"[refine] adds values between others; {axis} has none between")
        if len(axes[axis]) < LEAST_FOR_BREAK:
            raise ValueError(
                f"[refine] begins with at least {LEAST_FOR_BREAK} values of axes.{axis}, a break "
                f"needs two on either side; got {len(axes[axis])}"
            )

    def _check_axis(self, axes: Mapping[str, Sequence[Any]]) -> None:
        """Require an axis of the grid; one of paths only where there are two to compare."""
        asked = self.analysis.axis
        if asked not in axes:
            raise ValueError(f"analysis.axis is {asked!r}; the grid has: {', '.join(axes)}")
        if asked == FACTOR and not (False in axes[FACTOR] and len(axes[FACTOR]) > 1):
            raise ValueError(
                f"analysis.axis is {asked!r}, whose values are compared with the baseline; "
                "axes.accelerated needs false and another value"
            )

    @property
    def has_rounds(self) -> bool:
        """Whether what is measured depends on what was found: then the run goes in rounds."""
        return self.stop is not None or self.refine is not None

    def resolved(self) -> dict[str, Any]:
        """Every value in force, as plain JSON types: what a run stores."""
        return self.model_dump(mode="json", by_alias=True)
