"""Who learns of each record: the store, the live figures, later the metrics exporter."""

from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from harness.records.request import RequestRecord
from harness.records.shard import ShardWriter

N_RECENT: Final = 2000


class Observer(Protocol):
    """Told of every record, once, in the user's greenlet: must not block."""

    def on_record(self, record: RequestRecord) -> None:
        """Take note of a finished request."""
        ...


class StoreObserver:
    """Writes records to the run's shard."""

    def __init__(self, writer: ShardWriter) -> None:
        self._writer = writer

    def on_record(self, record: RequestRecord) -> None:
        """Append it; on disk within about a second."""
        self._writer.append(record)


class LiveFigures:
    """Counts and recent latencies for the progress display and the exit code.

    Attributes:
        n_records: requests recorded.
        n_failed: those that did not come whole, warm-up excluded.
        n_ok: those that did, warm-up excluded.
    """

    def __init__(self) -> None:
        self.n_records = 0
        self.n_failed = 0
        self.n_ok = 0
        self._ttft_ns: deque[int] = deque(maxlen=N_RECENT)

    def on_record(self, record: RequestRecord) -> None:
        """Count it."""
        self.n_records += 1
        if record.is_warmup:
            return
        self.n_ok += int(record.outcome.is_ok)
        self.n_failed += int(not record.outcome.is_ok)
        if record.outcome.is_ok and record.first_token_ns is not None:
            self._ttft_ns.append(record.first_token_ns - record.intended_ns)

    def start_cell(self) -> None:
        """Forget the latencies of the cell before."""
        self._ttft_ns.clear()

    def ttft_s(self, q: float) -> float | None:
        """Quantile of the recent TTFTs, nearest rank; for the display, never for a verdict."""
        ordered = sorted(self._ttft_ns)
        return _nearest_rank(ordered, q)


def _nearest_rank(ordered: Sequence[int], q: float) -> float | None:
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))] / 1e9
