"""What may be claimed about a run, part by part: the frozen types between analysis and report.

They are also the parts of `report.json` (schema 1), so a claim has one definition from the place
that makes it to the file other programs read. Undefined is null with a caveat that says why.
"""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

Number = float | None
Quantile = Literal["p50", "p90", "p99"]
MetricName = Literal[
    "ttft_s", "ttfo_s", "itl_s", "tpot_s", "e2e_s", "service_ttft_s", "service_e2e_s"
]
CellState = Literal[
    "fixed",
    "converged",
    "wide",
    "nonstationary",
    "saturated",
    "invalid-client",
    "partial",
    "failed",
]
BreakKind = Literal["jump", "kink", "both", "staircase", "surface", "gradual", "none"]
VerdictStatus = Literal[
    "pass",
    "requests_failed",
    "slo_missed",
    "regression",
    "undecided",
    "invalid",
    "improvement",
    "suspect",
]
Factor = float | int | bool | str


class Part(BaseModel):
    """Base of every finding: frozen, closed, no NaN."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Run(Part):
    """Which run this is."""

    id: str
    scenario: str
    title: str
    target: str
    started: str
    status: Literal["complete", "partial", "void"]
    duration_s: Number
    n_requests: int


class Verdict(Part):
    """The answer in words, with the status that decides the exit code."""

    status: VerdictStatus
    text: str


class Validity(Part):
    """Whether the numbers may be believed: the harness's account of itself."""

    stamps: Literal["kernel", "user", "tap"]
    rx_lag_p99_s: Number
    dispatch_lag_p99_s: Number
    dispatch_lag_share_max: Number
    late_read_share: Number
    coalesced_share: Number
    offered_rps: Number
    sent_rps: Number
    client_cpu_share: Number
    clock_steps: int
    prompt_length_exact_share: Number
    output_length_exact_share: Number
    caveats: list[str]


class Estimate(Part):
    """A quantile with its interval; an open bound is null."""

    value: Number
    low: Number
    high: Number


class TokenCounts(Part):
    """Mean lengths and who counted them."""

    prompt_mean: Number
    output_mean: Number
    count_source: str | None


class StepFigures(Part):
    """One reasoning step over a cell's requests; the last step is the answer."""

    step: int
    is_answer: bool
    n: int
    ttft_s: dict[Quantile, Estimate]
    duration_s: dict[Quantile, Estimate]
    tokens_mean: Number
    kv_tokens_mean: Number
    kv_growth_mean: Number


class StopFigures(Part):
    """How far a cell came by the scenario's `[stop]`.

    `half_width` is a share of the quantile, null where a bound is open; `n_needed` the requests
    that were predicted to be missing to the target, null where none would do; `r_hat` the
    disagreement of the `n_starts` starts of the server, null with one; `n_cut` were still warming
    up.
    """

    half_width: Number
    n_needed: int | None
    n_starts: int
    r_hat: Number
    n_cut: int


VOID: Final[tuple[CellState, ...]] = ("invalid-client", "failed")
"""No finding rests on such a cell."""
USABLE: Final[frozenset[CellState]] = frozenset({"fixed", "converged", "wide"})
"""Cells that curves and comparisons are made of."""


class Cell(Part):
    """One combination of factors."""

    id: str
    factors: dict[str, Factor]
    state: CellState
    n: int
    n_effective: Number
    outcomes: dict[str, int]
    metrics: dict[MetricName, dict[Quantile, Estimate]]
    phases_mean_s: dict[str, float]
    phases_tail_s: dict[str, float]
    sent_rps: Number
    completed_rps: Number
    tokens: TokenCounts
    steps: list[StepFigures] = []
    stop: StopFigures | None = None
    features: list[str]
    caveats: list[str]


class RankedComponent(Part):
    """A component's share of a break or of the slowest requests."""

    component: str
    share: Number
    low: Number
    high: Number


class Confirmed(Part):
    """A jump between the cells next to it, by `n` requests to a fresh start sent only for this."""

    effect: Number
    low: Number
    high: Number
    n: int


LEVEL: Final = "level"
"""The coefficient of a surface that is no axis."""
SurfaceForm = Literal["axis", "product", "half_plane"]


class Surface(Part):
    """Where a quantile changes regime over several axes.

    The break is where prod(axis ** coefficient) = level. `coefficients` holds the exponent of each
    of `axes` and the `level`; an exponent that the form fixes is its own interval. `change` is a
    step across it, or a slope that changes there.
    """

    form: SurfaceForm
    change: Literal["jump", "kink"] = "jump"
    axes: list[str]
    coefficients: dict[str, Estimate]


class Breakpoint(Part):
    """Where a quantile changes regime along an axis, or that it does not."""

    metric: MetricName
    q: float
    axis: str
    axes: list[str] | None = None
    at: dict[str, Factor]
    kind: BreakKind
    location: Number
    low: Number
    high: Number
    surface: Surface | None = None
    effect: Number
    effect_low: Number
    effect_high: Number
    width_octaves: Number
    component: str | None
    share: Number
    share_low: Number
    share_high: Number
    ranked: list[RankedComponent]
    detectable_effect: Number
    confirmed: Confirmed | None = None
    caveats: list[str]


ComparedWord = Literal[
    "faster", "slower", "same", "differs", "undecided", "regression", "improvement", "pass"
]  # fmt: skip


class ComparedMetric(Part):
    """Candidate over reference in one cell; below 1 is faster.

    Two paths of a run are `faster`, `slower` or `same`, and `differs` where their answers are not
    the same and a ratio of times says nothing of speed; against an earlier run a cell is a
    `regression`, an `improvement` or a `pass`. Either may be `undecided`.
    """

    metric: MetricName
    q: float
    cell: str
    ratio: Number
    low: Number
    high: Number
    verdict: ComparedWord


class LedgerRow(Part):
    """What one set of features changes: beside the baseline, or beside a smaller set in it.

    `features` and `over` are values of the axis `accelerated`: what `cell` and `reference` asked
    for; `at` holds the other factors of both. Over `false` is over the baseline.
    """

    features: bool | str
    over: bool | str
    at: dict[str, Factor]
    cell: str
    reference: str
    metrics: list[ComparedMetric]


class Answers(Part):
    """Whether what a value of the axis `accelerated` answers is what the baseline answers.

    `said` is the verdict in words; `problems` name the way of sampling, the figure and its limit.
    """

    asked: bool | str
    verdict: Literal["same", "within limits", "differs", "not checked"]
    said: str
    problems: list[str]


class Comparison(Part):
    """The accelerated path beside the baseline, cell by cell, the analysed quantile first.

    All intervals of one metric and quantile hold together. `ledger` is there where several sets of
    features are compared. `answers` says of each value of the axis whether it answers as the
    baseline does.
    """

    reference: str
    candidate: str
    metrics: list[ComparedMetric]
    ledger: list[LedgerRow] = []
    answers: list[Answers] = []


class BaselineComparison(Part):
    """This run against an earlier one, in the analysed metric and quantile.

    `limit` is the relative slowdown that is allowed; all intervals hold together at `confidence`.
    `detectable_effect` is the slowdown that would most likely have been seen in any of the cells.
    """

    reference: str
    candidate: str
    limit: float
    confidence: float
    verdict: Literal["pass", "regression", "improvement", "undecided"]
    detectable_effect: Number
    metrics: list[ComparedMetric]
    unmatched: list[str]
    caveats: list[str]


class ServerFigures(Part):
    """What the server said of itself while a cell was measured; null where it did not say.

    Mean and maximum of gauges are over the `n_scrapes` that fell into the cell's measured time;
    rates are of counters, `queue_p99_s` is interpolated within a bucket of the server's own; beyond
    the last bound it is that bound.
    """

    cell: str
    n_scrapes: int
    kv_usage_mean: Number
    kv_usage_max: Number
    running_mean: Number
    waiting_mean: Number
    waiting_max: Number
    prefix_hit_share: Number
    output_tokens_per_s: Number
    preemptions: Number
    queue_p99_s: Number
    gc_pause_share: Number


class ServerSaid(Part):
    """The target's own account, cell by cell; `engine` is the kind of server that was recognised.

    A cell with fewer than two scrapes has no figures, only their number.
    """

    engine: str | None
    cells: list[ServerFigures]
    caveats: list[str]


class SeenFigure(Part):
    """A number that a symptom rests on, and the same before the break."""

    what: str
    value: Number
    unit: str
    normal: Number


class SeenSymptom(Part):
    """Something wrong that the server's telemetry shows, why, and what to do.

    `strength` is how many times the deciding figure, the first of `evidence`, is beyond its limit.
    """

    name: str
    seen: str
    cause: str
    fix: str
    strength: Number
    explains_component: bool
    evidence: list[SeenFigure]


class Why(Part):
    """Symptoms beyond a break that the cells before it lack; without an axis, of the whole run."""

    axis: str | None
    at: dict[str, Factor]
    location: Number
    component: str | None
    symptoms: list[SeenSymptom]


class Round(Part):
    """What was measured at one go, on one start of the server where it is ours to start.

    `why`: the `grid` as it was planned; then for `precision` of cells, to see whether there is a
    break (`power`), to place it (`refine`), to `confirm` it. Requests without warm-up.
    """

    number: int
    why: list[Literal["grid", "precision", "power", "refine", "confirm"]]
    cells: list[str]
    n_requests: int


class Reproduce(Part):
    """How to get this report again."""

    command: str
    seed: int
    environment: dict[str, str]


class Analysis(Part):
    """What was asked of the records."""

    metric: MetricName
    q: Annotated[float, Field(ge=0, le=1)]
    confidence: float
    axis: str
