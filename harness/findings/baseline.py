"""A run against an earlier one: which cells became slower by more than the scenario allows.

Cells are matched by their factors. The scenario's metric and quantile decide, all cells together:
one answer for the run, whose chance of a false regression is that of the whole set of intervals.
"""

from collections.abc import Sequence
from typing import Literal

from harness.base.errors import SetupError
from harness.findings.cells import number
from harness.findings.comparison import compared, pair_ratios
from harness.findings.evidence import Evidence
from harness.findings.fidelity import differs
from harness.findings.finding import USABLE, BaselineComparison, Cell, ComparedMetric
from harness.findings.ledger import Pair
from harness.scenario.baseline import require_comparable
from harness.scenario.comparable import Described
from harness.stats.ratio import QuantileRatio

BaselineWord = Literal["pass", "improvement", "regression", "undecided"]
ONE_RUN = "One run on each side: what moves between two runs as a whole is not in the intervals."


def compare_runs(
    reference: Evidence,
    reference_cells: Sequence[Cell],
    candidate: Evidence,
    cells: Sequence[Cell],
) -> BaselineComparison:
    """The candidate against the reference, by the candidate's scenario.

    Raises:
        SetupError: the two cannot be compared, with every reason.
    """
    name = reference.run["id"]
    if name == candidate.run["id"]:
        raise SetupError(f"run {name} cannot be its own baseline")
    caveats = require_comparable(name, _described(reference), _described(candidate))
    if reference.analysed.empty:
        raise SetupError(f"run {name} is no baseline: none of its requests completed")
    pairs = _match(reference_cells, cells)
    analysis = candidate.scenario.analysis
    ratios = pair_ratios(reference, candidate, pairs, analysis.metric, analysis.q)
    rows, void = _judge(candidate, pairs, ratios)
    limit = 1 + candidate.scenario.limits.regression
    known = [item for item in ratios if item is not None]
    detectable = max((item.detectable(limit) - 1 for item in known), default=None)
    return BaselineComparison(
        reference=name,
        candidate=candidate.run["id"],
        limit=candidate.scenario.limits.regression,
        confidence=analysis.confidence,
        verdict=_verdict(rows),
        detectable_effect=number(detectable) if len(known) == len(pairs) else None,
        metrics=rows,
        unmatched=_unmatched(reference_cells, cells),
        caveats=[ONE_RUN, *caveats, *void],
    )


def _described(evidence: Evidence) -> Described:
    return Described(
        scenario=evidence.scenario,
        environment=evidence.environment,
        target=evidence.run["target"],
    )


def _match(reference: Sequence[Cell], candidate: Sequence[Cell]) -> list[Pair]:
    """Cells with equal factors, in the candidate's order."""
    known = {_key(cell): cell for cell in reference}
    return [(known[_key(cell)], cell) for cell in candidate if _key(cell) in known]


def _key(cell: Cell) -> frozenset[tuple[str, object]]:
    return frozenset(cell.factors.items())


def _unmatched(reference: Sequence[Cell], candidate: Sequence[Cell]) -> list[str]:
    """Cells of one run only, by id and run."""
    here, there = {_key(cell) for cell in candidate}, {_key(cell) for cell in reference}
    new = [f"{cell.id}: not in the baseline" for cell in candidate if _key(cell) not in there]
    gone = [f"{cell.id} of the baseline: not here" for cell in reference if _key(cell) not in here]
    return new + gone


def _judge(
    candidate: Evidence, pairs: Sequence[Pair], ratios: Sequence[QuantileRatio | None]
) -> tuple[list[ComparedMetric], list[str]]:
    """The rows, and why a pair with a void cell is undecided."""
    analysis, limit = candidate.scenario.analysis, 1 + candidate.scenario.limits.regression
    rows, reasons = [], []
    for (before, after), found in zip(pairs, ratios, strict=True):
        void = next((cell for cell in (before, after) if cell.state not in USABLE), None)
        word: BaselineWord = "undecided" if void or found is None else _word(found, limit)
        if word == "improvement" and differs(candidate, [after]):
            word = "undecided"
            reasons.append(f"{after.id} is no improvement: its answers differ from the baseline's.")
        rows.append(compared(analysis.metric, analysis.q, after.id, found, word))
        if void:
            where = "here" if void is after else "in the baseline"
            reasons.append(f"{after.id} is not judged: the cell is {void.state} {where}.")
    return rows, reasons


def _word(found: QuantileRatio, limit: float) -> BaselineWord:
    """Regression above the limit, improvement below its inverse; pass if it is surely not above."""
    if found.low > limit:
        return "regression"
    if found.high < 1 / limit:
        return "improvement"
    return "pass" if found.high <= limit else "undecided"


def _verdict(rows: Sequence[ComparedMetric]) -> BaselineWord:
    """One cell surely slower is a regression whatever the others are; then doubt goes first."""
    words = {row.verdict for row in rows}
    order: tuple[BaselineWord, ...] = ("regression", "undecided", "improvement")
    return next((word for word in order if word in words), "pass")
