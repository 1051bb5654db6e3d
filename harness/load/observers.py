"""Who learns of each record: the store, the live figures, later the metrics exporter."""

from collections import deque
from typing import Final, Protocol

from harness.load.messages import Report
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


class Figures:
    """What the progress display and the exit code need to know of a run's requests.

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

    def start_cell(self) -> None:
        """Forget the latencies of the cell before."""
        self._ttft_ns.clear()

    def ttft_s(self, q: float) -> float | None:
        """Quantile of the recent TTFTs, nearest rank; for the display, never for a verdict."""
        ordered = sorted(self._ttft_ns)
        if not ordered:
            return None
        return ordered[min(len(ordered) - 1, int(q * len(ordered)))] / 1e9


class LiveFigures(Figures):
    """Counted from the records of this process."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh_ns: deque[int] = deque(maxlen=N_RECENT)

    def on_record(self, record: RequestRecord) -> None:
        """Count it."""
        self.n_records += 1
        if record.is_warmup:
            return
        self.n_ok += int(record.outcome.is_ok)
        self.n_failed += int(not record.outcome.is_ok)
        if record.outcome.is_ok and record.first_token_ns is not None:
            self._ttft_ns.append(record.first_token_ns - record.intended_ns)
            self._fresh_ns.append(self._ttft_ns[-1])

    def take_fresh(self) -> list[int]:
        """TTFTs since the last call, ns."""
        fresh = list(self._fresh_ns)
        self._fresh_ns.clear()
        return fresh


class SummedFigures(Figures):
    """Summed over several processes, from what each reports; a repeated report changes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self._reports: dict[int, Report] = {}

    def take(self, worker: int, report: Report) -> None:
        """This process's counts so far."""
        self._reports[worker] = report
        self._ttft_ns.extend(report.ttft_ns)
        reports = self._reports.values()
        self.n_records = sum(each.n_records for each in reports)
        self.n_failed = sum(each.n_failed for each in reports)
        self.n_ok = sum(each.n_ok for each in reports)
