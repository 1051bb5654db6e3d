"""`report.json`, schema 1: the stable contract other programs read.

Its parts are the findings themselves (`harness.findings.finding`). Undefined is null with a caveat
that says why, never NaN. `docs/metrics.md` explains each field and `docs/report.schema.json` is
generated from these models.
"""

from typing import Literal

from pydantic import ConfigDict, Field

from harness.findings.finding import (
    Analysis,
    Answers,
    BaselineComparison,
    BreakKind,
    Breakpoint,
    Cell,
    CellState,
    ComparedMetric,
    ComparedWord,
    Comparison,
    Estimate,
    Factor,
    LedgerRow,
    MetricName,
    Number,
    Part,
    Quantile,
    RankedComponent,
    Reproduce,
    Round,
    Run,
    SeenFigure,
    SeenSymptom,
    ServerFigures,
    ServerSaid,
    StepFigures,
    StopFigures,
    Surface,
    SurfaceForm,
    TokenCounts,
    Validity,
    Verdict,
    VerdictStatus,
    Why,
)

__all__ = [
    "Analysis",
    "Answers",
    "BaselineComparison",
    "BreakKind",
    "Breakpoint",
    "Cell",
    "CellState",
    "ComparedMetric",
    "ComparedWord",
    "Comparison",
    "Estimate",
    "Factor",
    "LedgerRow",
    "MetricName",
    "Number",
    "Part",
    "Quantile",
    "RankedComponent",
    "Report",
    "Reproduce",
    "Round",
    "Run",
    "SeenFigure",
    "SeenSymptom",
    "ServerFigures",
    "ServerSaid",
    "StepFigures",
    "StopFigures",
    "Surface",
    "SurfaceForm",
    "TokenCounts",
    "Validity",
    "Verdict",
    "VerdictStatus",
    "Why",
]


class Report(Part):
    """The whole report, schema 1."""

    schema_version: Literal[1] = Field(default=1, alias="schema")
    run: Run
    analysis: Analysis
    verdict: Verdict
    validity: Validity
    cells: list[Cell]
    breakpoints: list[Breakpoint]
    comparison: Comparison | None
    baseline: BaselineComparison | None = None
    telemetry: ServerSaid | None = None
    why: list[Why] = Field(default=[])
    rounds: list[Round] = Field(default=[])
    reproduce: Reproduce
    caveats: list[str]

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, populate_by_name=True
    )
