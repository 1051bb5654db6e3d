"""Whether the numbers may be believed: the harness's account of itself for one run."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from harness.findings.cells import number
from harness.findings.evidence import Evidence
from harness.findings.finding import Validity
from harness.findings.rules import Doubt, dispatch_lag
from harness.metrics.latency import dispatch_lag_s, rx_lag_s
from harness.metrics.stream import coalesced_share, exact_share, late_read_share
from harness.metrics.throughput import offered_rps, sent_rps


def judge_validity(evidence: Evidence, doubts: Sequence[Doubt]) -> Validity:
    """The validity row of a report."""
    rows = evidence.analysed
    is_open = evidence.scenario.load.mode == "open"
    return Validity(
        stamps=_stamps(rows),
        rx_lag_p99_s=_p99(rx_lag_s(rows)),
        dispatch_lag_p99_s=_p99(dispatch_lag_s(rows)),
        dispatch_lag_share_max=number(_worst_lag_share(evidence)),
        late_read_share=number(late_read_share(rows)),
        coalesced_share=number(coalesced_share(rows)),
        offered_rps=number(offered_rps(rows)) if len(rows) and is_open else None,
        sent_rps=number(sent_rps(rows)) if len(rows) else None,
        client_cpu_share=number(evidence.client.get("cpu_share")),
        clock_steps=int(evidence.client.get("clock_steps") or 0),
        prompt_length_exact_share=number(exact_share(rows, "n_prompt_tokens", "prompt_asked")),
        output_length_exact_share=number(exact_share(rows, "n_output_tokens", "output_asked")),
        caveats=[doubt.text for doubt in doubts if doubt.cell is None],
    )


def _stamps(rows: pd.DataFrame) -> Literal["kernel", "user", "tap"]:
    """The weakest source seen: one user-space stamp makes the run user-space."""
    seen = set(rows["stamps"])
    order: tuple[Literal["kernel", "user", "tap"], ...] = ("user", "tap", "kernel")
    return next((name for name in order if name in seen), "user")


def _worst_lag_share(evidence: Evidence) -> float | None:
    shares = [dispatch_lag.lag_share(evidence, cell) for cell in evidence.plan.cells]
    return max((share for share in shares if share is not None), default=None)


def _p99(values: np.ndarray) -> float | None:
    finite = values[np.isfinite(values)]
    return float(np.quantile(finite, 0.99, method="higher")) if finite.size else None
