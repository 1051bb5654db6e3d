"""The answer in words, and the status that decides the exit code.

The order of statuses is the order of exit codes: an invalid or undecided measurement (5) before
failed requests (1) before a regression (4) before a missed SLO (3). What else holds is said too. A
breakpoint is a finding, not a failure: a run that finds one passes.
"""

from collections.abc import Sequence
from typing import Final

from harness.findings.baseline_words import baseline_sentence
from harness.findings.comparison_words import comparison_sentences
from harness.findings.evidence import Evidence
from harness.findings.fidelity import answers_sentence
from harness.findings.finding import (
    VOID,
    BaselineComparison,
    Breakpoint,
    Cell,
    CellState,
    Comparison,
    MetricName,
    Verdict,
    VerdictStatus,
)
from harness.findings.quantity import many
from harness.findings.words import break_sentences, metric_words
from harness.stats.quantile_ci import n_for_finite

PRECEDENCE: Final[tuple[VerdictStatus, ...]] = (
    "invalid",
    "undecided",
    "suspect",
    "requests_failed",
    "regression",
    "slo_missed",
    "improvement",
    "pass",
)
MAX_ERROR = 200
STOP_WORDS: Final[dict[CellState, str]] = {
    "wide": "stayed wide",
    "nonstationary": "did not settle",
    "saturated": "had a queue that grew",
}
SLO_OF_METRIC: tuple[tuple[MetricName, str], ...] = (
    ("ttft_s", "slo_ttft_s"),
    ("e2e_s", "slo_e2e_s"),
)


def judge(
    evidence: Evidence,
    cells: Sequence[Cell],
    breakpoints: Sequence[Breakpoint],
    comparison: Comparison | None,
    baseline: BaselineComparison | None = None,
) -> Verdict:
    """The verdict of a run: the first of what holds by `PRECEDENCE`, with the rest beside it."""
    failed = _failed(evidence)
    found = (
        _void(evidence, cells, breakpoints),
        failed,
        None if baseline is None else _changed(baseline, cells, has_failed=failed is not None),
        _slo(evidence, cells),
        *_other_answers(comparison),
    )
    answers = sorted(filter(None, found), key=lambda answer: PRECEDENCE.index(answer[0]))
    if not answers and not _is_judged(evidence, breakpoints, comparison):
        answers = [("undecided", "Nothing that was asked can be judged.")]
    if answers and answers[0][0] == "invalid":
        return Verdict(status="invalid", text=answers[0][1])
    sentences = [text for _, text in answers] + break_sentences(breakpoints)
    sentences += [_reached(cells), _too_few(evidence, cells)]
    if comparison is not None:
        sentences += comparison_sentences(comparison, cells, evidence.scenario.analysis)
    sentences.append(_left_out(cells))
    status = answers[0][0] if answers else "pass"
    return Verdict(status=status, text=" ".join(filter(None, sentences)))


def _void(
    evidence: Evidence, cells: Sequence[Cell], breakpoints: Sequence[Breakpoint]
) -> tuple[VerdictStatus, str] | None:
    """Whether the run answers at all: some cell is left, it ended, and every curve is judged."""
    if evidence.analysed.empty:
        return "invalid", f"No request completed: this run is no evidence.{_ends(evidence)}"
    void = [cell for cell in cells if cell.state == "invalid-client"]
    if len(void) == len(cells):
        return "invalid", f"No cell can support a finding: {_reason(void[0])}."
    n, n_missing = evidence.plan.n_requests, evidence.n_missing
    if n_missing:
        return "undecided", f"The run is partial: {n_missing} of {n} planned requests are missing."
    unjudged = [item for item in breakpoints if item.kind == "none" and not item.detectable_effect]
    if unjudged and any(cell.state == "invalid-client" for cell in cells):
        of = many(len(breakpoints), "curve")
        return "undecided", f"{len(unjudged)} of {of} cannot be judged."
    return None


def _other_answers(comparison: Comparison | None) -> list[tuple[VerdictStatus, str]]:
    """Paths that answer otherwise than the baseline: their times are of other work."""
    said = map(answers_sentence, comparison.answers if comparison is not None else ())
    return [("suspect", sentence) for sentence in said if sentence]


def _is_judged(
    evidence: Evidence, breakpoints: Sequence[Breakpoint], comparison: Comparison | None
) -> bool:
    """Whether the run says anything: on a curve, on a pair of cells, or on a limit that was set."""
    limits = evidence.scenario.limits
    asked = (evidence.scenario.analysis.metric, evidence.scenario.analysis.q)
    compared = comparison.metrics if comparison is not None else []
    return (
        any(item.kind != "none" or item.detectable_effect for item in breakpoints)
        or any(item.verdict != "undecided" for item in compared if (item.metric, item.q) == asked)
        or any(getattr(limits, key) is not None for _, key in SLO_OF_METRIC)
    )


def _ends(evidence: Evidence) -> str:
    """How the recorded requests ended, and the first error text; empty without a record."""
    rows = evidence.measured
    if rows.empty:
        return " None was recorded."
    counts = ", ".join(f"{n} {name}" for name, n in rows["outcome"].value_counts().items())
    errors = rows["error"].dropna()
    first = f"; first: {str(errors.iloc[0])[:MAX_ERROR]}" if len(errors) else ""
    return f" Recorded: {counts}{first}."


def _reached(cells: Sequence[Cell]) -> str:
    """How many cells came to the width asked for, and how the others ended; else empty."""
    asked = [cell for cell in cells if cell.stop is not None and cell.state not in VOID]
    if not asked:
        return ""
    said = f"{sum(cell.state == 'converged' for cell in asked)} of {many(len(asked), 'cell')} "
    said += "converged to the width asked for"
    for state, words in STOP_WORDS.items():
        n = sum(cell.state == state for cell in asked)
        said += f", {n} {words}" if n else ""
    return f"{said}."


def _too_few(evidence: Evidence, cells: Sequence[Cell]) -> str:
    """How many requests are missing where few cells can carry an upper bound; else empty."""
    analysis = evidence.scenario.analysis
    needed = n_for_finite(analysis.q, analysis.confidence)
    worth = [int(cell.n_effective or 0) for cell in cells if cell.state not in VOID]
    if not worth or 2 * sum(n >= needed for n in worth) >= len(worth):
        return ""
    held = f"{min(worth)} to {max(worth)}" if min(worth) < max(worth) else f"{worth[0]}"
    return (
        f"Too few requests for {metric_words(analysis.metric, analysis.q)}: an upper bound needs "
        f"{needed} independent ones in a cell, these hold {held}."
    )


def _left_out(cells: Sequence[Cell]) -> str:
    """Cells that no finding rests on, and the first reason; empty without any."""
    void = [cell for cell in cells if cell.state in VOID]
    if not void or len(void) == len(cells):
        return ""
    return f"Left out as void: {', '.join(cell.id for cell in void)} ({_reason(void[0])})."


def _reason(cell: Cell) -> str:
    return cell.caveats[0] if cell.caveats else cell.state


def _failed(evidence: Evidence) -> tuple[VerdictStatus, str] | None:
    n, n_ok = len(evidence.counted), len(evidence.analysed)
    if n == 0:
        return None
    share, limit = (n - n_ok) / n, evidence.scenario.limits.failed_share
    if share <= limit:
        return None
    text = f"{n - n_ok} of {n} requests failed ({share:.1%}, the limit is {limit:.1%})."
    return "requests_failed", text


def _changed(
    baseline: BaselineComparison, cells: Sequence[Cell], *, has_failed: bool
) -> tuple[VerdictStatus, str]:
    """What changed; cells that failed leave no doubt of their own in a run that failed."""
    text = baseline_sentence(baseline, cells)
    doubtful = {row.cell for row in baseline.metrics if row.verdict == "undecided"}
    states = {cell.state for cell in cells if cell.id in doubtful}
    if has_failed and baseline.verdict == "undecided" and states == {"failed"}:
        return "requests_failed", text
    return baseline.verdict, text


def _slo(evidence: Evidence, cells: Sequence[Cell]) -> tuple[VerdictStatus, str] | None:
    for metric, key in SLO_OF_METRIC:
        limit = getattr(evidence.scenario.limits, key)
        if limit is None:
            continue
        name = metric_words(metric, 0.99)
        usable = [cell for cell in cells if cell.state not in VOID]
        known = {cell.id: _p99(cell, metric) for cell in usable}
        missed = [value for value in known.values() if value is not None and value > limit]
        if not missed and None in known.values():
            n = sum(value is None for value in known.values())
            return "undecided", f"The SLO on {name} cannot be judged in {many(n, 'cell')}: no P99."
        if missed:
            text = (
                f"The SLO of {limit * 1e3:g} ms on {name} is missed in {len(missed)} of "
                f"{many(len(cells), 'cell')}."
            )
            return "slo_missed", text
    return None


def _p99(cell: Cell, metric: MetricName) -> float | None:
    quantiles = cell.metrics.get(metric)
    return quantiles["p99"].value if quantiles else None
