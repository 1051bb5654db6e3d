"""What is counted of one cell's rows; the same for a run that goes on and for one that is over.

Warm-up counts nowhere. Latencies are those of answers that came whole, by the definitions of
`harness.metrics.latency`; lags are those of everything that was sent.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from harness.export.family import Point
from harness.export.histogram import Histogram, Trace
from harness.metrics import latency
from harness.metrics.catalogue import load as catalogue
from harness.metrics.catalogue.metric import Metric
from harness.records.request import Outcome

COLUMNS: Final = (
    "cell", "segment", "index", "session", "is_warmup", "outcome", "intended_ns", "sent_ns",
    "first_token_ns", "done_ns", "token_ns", "chunk_ns", "late_read", "step_start_ns", "rx_lag_ns",
    "n_prompt_tokens", "n_output_tokens",
)  # fmt: skip
"""What is read of a row."""
OK_OUTCOMES: Final = frozenset(outcome.value for outcome in Outcome if outcome.is_ok)
NO_FAILURE: Final = OK_OUTCOMES | {Outcome.CANCELLED.value}
"""What a stop of ours cancelled says nothing of the target."""
TOKENS: Final = (
    (catalogue.LOAD_PROMPT_TOKENS, "n_prompt_tokens"),
    (catalogue.LOAD_OUTPUT_TOKENS, "n_output_tokens"),
)
HISTOGRAMS: Final = (
    catalogue.LOAD_TTFT, catalogue.LOAD_ITL, catalogue.LOAD_E2E,
    catalogue.DISPATCH_LAG, catalogue.RX_LAG,
)  # fmt: skip


class CellCounts:
    """Counts of one cell.

    Attributes:
        n: rows counted, which only grows.
    """

    def __init__(self) -> None:
        self.n = 0
        self._outcomes = Counter[str]()
        self._tokens: dict[Metric, int] = {}
        self._n_chunks = 0
        self._n_late = 0
        self._histograms = {metric: Histogram(metric) for metric in HISTOGRAMS}

    def add(self, rows: pd.DataFrame, traces: Sequence[Trace]) -> None:
        """Count rows of this cell that are no warm-up, each with its trace or none with any."""
        self.n += len(rows)
        self._outcomes.update(rows["outcome"])
        self._n_chunks += int(rows["chunk_ns"].map(len).sum())
        self._n_late += int(rows["late_read"].map(np.count_nonzero).sum())
        self._histograms[catalogue.DISPATCH_LAG].add(latency.dispatch_lag_s(rows))
        self._histograms[catalogue.RX_LAG].add(latency.rx_lag_s(rows))
        is_ok = rows["outcome"].isin(OK_OUTCOMES).to_numpy()
        self._add_whole(
            rows[is_ok], [traces[i] for i in np.flatnonzero(is_ok).tolist()] if traces else []
        )

    def points(self, labels: tuple[str, ...]) -> Iterator[tuple[Metric, list[Point]]]:
        """Every metric that something was counted for, with these labels."""
        yield (
            catalogue.LOAD_REQUESTS,
            [Point((*labels, outcome), n) for outcome, n in sorted(self._outcomes.items())],
        )
        n_failed = sum(n for outcome, n in self._outcomes.items() if outcome not in NO_FAILURE)
        yield catalogue.LOAD_FAILURES, [Point(labels, n_failed)]
        for metric, n in self._tokens.items():
            yield metric, [Point(labels, n)]
        yield catalogue.CHUNKS, [Point(labels, self._n_chunks)]
        yield catalogue.LATE_CHUNKS, [Point(labels, self._n_late)]
        for metric, histogram in self._histograms.items():
            if histogram.n:
                yield metric, list(histogram.points(labels))

    def _add_whole(self, rows: pd.DataFrame, traces: Sequence[Trace]) -> None:
        self._histograms[catalogue.LOAD_TTFT].add(latency.ttft_s(rows), traces)
        self._histograms[catalogue.LOAD_ITL].add(latency.itl_s(rows))
        self._histograms[catalogue.LOAD_E2E].add(latency.e2e_s(rows), traces)
        for metric, column in TOKENS:
            counted = rows[column].dropna()
            if len(counted):
                self._tokens[metric] = self._tokens.get(metric, 0) + int(counted.sum())
