"""Scraping while something else runs: one thread a source, a row for every change.

Belongs to a process that is idle meanwhile, never to the load: a slow source delays nobody but
itself. A source that fails is asked again; one that has no metrics is let go.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from harness.base.clock import Clock, SystemClock
from harness.base.errors import RecordError, SetupError, TailbreakError
from harness.importers.metrics_source import MetricsSource, NotServed
from harness.importers.row_changes import Changes
from harness.records.telemetry import Reading

MAX_SOURCES: Final = 16
MAX_REASON: Final = 200
JOIN_S: Final = 6.0

Write = Callable[[Sequence[Reading]], None]


@contextmanager
def watching(
    sources: Sequence[MetricsSource], write: Write, *, every_s: float = 1.0
) -> Iterator[None]:
    """Scrape every source each period while the block runs, once at its start and at its end.

    Raises:
        SetupError: too many sources, or two of one name.
    """
    _require_apart(sources)
    stop, lock = threading.Event(), threading.Lock()
    watches = [_Watch(source, write, lock, stop, every_s) for source in sources]
    threads = [threading.Thread(target=each.run, daemon=True) for each in watches]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join(JOIN_S)
        with lock:  # a thread that still waits for its server writes nothing any more
            for each in watches:
                each.is_over = True


def _require_apart(sources: Sequence[MetricsSource]) -> None:
    names = [source.name for source in sources]
    if len(names) > MAX_SOURCES:
        raise SetupError(f"got {len(names)} sources to scrape, allowed are {MAX_SOURCES}")
    for name in names:
        if names.count(name) > 1:
            raise SetupError(f"{name} is to be scraped twice; name it once")


class _Watch:
    """One source's thread."""

    def __init__(
        self,
        source: MetricsSource,
        write: Write,
        lock: threading.Lock,
        stop: threading.Event,
        every_s: float,
        clock: Clock | None = None,
    ) -> None:
        self.is_over = False
        self._source, self._changes = source, Changes(source.name)
        self._write, self._lock, self._stop = write, lock, stop
        self._every_ns = int(every_s * 1e9)
        self._clock: Clock = clock or SystemClock()

    def run(self) -> None:
        """Scrape until it is stopped, at fixed times: a slow answer makes none later."""
        due = self._clock.monotonic_ns()
        while self._once() and not self._stop.is_set():
            due += self._every_ns
            now = self._clock.monotonic_ns()
            if due < now:  # it took longer than a period: these are left out
                due += -((due - now) // self._every_ns) * self._every_ns
            if self._stop.wait((due - now) / 1e9):
                self._once()
                break
        self._source.close()

    def _once(self) -> bool:
        """One scrape; whether another is worth while."""
        is_served = True
        try:
            rows = self._changes.answered(self._source.ask())
        except TailbreakError as error:
            is_served = not isinstance(error, NotServed)
            rows = self._changes.failed(self._clock.realtime_ns(), str(error)[:MAX_REASON])
        try:
            with self._lock:
                if not self.is_over:
                    self._write(rows)
        except RecordError:
            return False  # the disk is full: the load's own writer says so, in its own words
        return is_served
