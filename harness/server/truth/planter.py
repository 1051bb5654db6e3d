"""What one request gets: its place in the log, its latencies or its planted failure."""

import time

from harness.server.truth.latency import LatencySource, Planted
from harness.server.truth.law import Law
from harness.server.truth.log import Entry, Log
from harness.server.truth.messages import Ask


class Planter:
    """Hands a law's latencies to the requests of all connections, in order of arrival.

    Attributes:
        law: what is planted.
        log: what came of it.
    """

    def __init__(self, law: Law, log: Log) -> None:
        self.law = law
        self.log = log
        self._source = LatencySource(law)
        self._n_in_flight = 0
        self._first_ns: int | None = None

    def begin(self, ask: Ask, headers: dict[str, str]) -> tuple[Entry, Planted | None]:
        """A request has arrived: its entry, and its latencies unless it is to fail."""
        now_ns = time.monotonic_ns()
        if self._first_ns is None:
            self._first_ns = now_ns
        self._n_in_flight += 1
        entry = Entry(
            number=self.log.n_requests + 1,
            seed=ask.seed,
            n_prompt=ask.n_prompt,
            arrival_ns=now_ns,
            n_in_flight=self._n_in_flight,
            body=ask.body,
            headers=headers,
        )
        self.log.add(entry)
        factors = {**ask.factors, "in_flight": float(self._n_in_flight)}
        planted = self._source.plant(factors, (now_ns - self._first_ns) / 1e9)
        self._stall_at(entry.number)
        failures = self.law.failures
        if failures is not None and entry.number % failures.every == 0:
            entry.status = failures.status
            return entry, None
        entry.planted_ttft_s, entry.planted_itl_s = planted.ttft_s, planted.itl_s
        return entry, planted

    def end(self, entry: Entry) -> None:
        """Its answer is sent, or its client is gone."""
        self._n_in_flight -= 1
        self.log.end(entry)

    def _stall_at(self, number: int) -> None:
        stall = self.law.stall
        if stall is not None and number == stall.at_request:
            stand_still(stall.length_s)


def stand_still(seconds: float) -> None:
    """Block the whole process, as a stop-the-world pause would."""
    time.sleep(seconds)
