"""Every number of every cell as CSV, for programs: seconds and shares as they are."""

import csv
import io
from typing import Final

from harness.report import words
from harness.report.schema import Report
from harness.report.table import QUANTILES
from harness.report.text import line

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def to_csv(report: Report) -> str:
    """Every number of every cell, one row a cell, seconds and shares as they are."""
    factors = list(dict.fromkeys(name for cell in report.cells for name in cell.factors))
    metrics = [m for m in words.METRICS if any(m in cell.metrics for cell in report.cells)]
    outcomes = sorted({name for cell in report.cells for name in cell.outcomes})
    phases = sorted({name for cell in report.cells for name in cell.phases_tail_s})
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    head = ["cell", *factors, "state", "n", "n_effective"]
    head += [
        f"{metric}_{quantile}{bound}"
        for metric in metrics
        for quantile in QUANTILES
        for bound in ("", "_low", "_high")
    ]
    head += ["sent_rps", "completed_rps", "prompt_tokens_mean", "output_tokens_mean"]
    head += [f"outcome_{name}" for name in outcomes]
    head += [f"phase_tail_{name}_s" for name in phases]
    head += ["features", "caveats"]
    writer.writerow(map(_safe, head))
    for cell in report.cells:
        row: list[object] = [cell.id, *(cell.factors.get(name) for name in factors)]
        row += [cell.state, cell.n, cell.n_effective]
        for metric in metrics:
            for quantile in QUANTILES:
                estimate = cell.metrics.get(metric, {}).get(quantile)
                row += [estimate.value, estimate.low, estimate.high] if estimate else [None] * 3
        row += [cell.sent_rps, cell.completed_rps]
        row += [cell.tokens.prompt_mean, cell.tokens.output_mean]
        row += [cell.outcomes.get(name, 0) for name in outcomes]
        row += [cell.phases_tail_s.get(name) for name in phases]
        row += ["; ".join(map(line, cell.features)), "; ".join(map(line, cell.caveats))]
        writer.writerow(map(_safe, row))
    return buffer.getvalue()


def _safe(value: object) -> object:
    """A text that a spreadsheet would run as a formula gets a quote in front."""
    if isinstance(value, str) and value.startswith(_FORMULA_STARTS):
        return f"'{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    return value
