"""Scrapes of one source to rows of telemetry: only what changed since the last one. Pure."""

from collections.abc import Iterator
from typing import Final

from harness.importers.metrics_source import Answer, missing, number
from harness.importers.metrics_text import SeriesKey
from harness.metrics.catalogue.canonical import CANONICAL_METRICS
from harness.metrics.catalogue.telemetry import LEFT_OUT, MISSING, ODD, SCRAPE_ERROR, UP
from harness.records.telemetry import Reading

MAX_SERIES: Final = 20_000
"""Series of one source that are kept."""


class Changes:
    """What a source's series last were, and the rows that the next scrape makes of it."""

    def __init__(self, source: str) -> None:
        self.source = source
        self._last: dict[SeriesKey, float | None] = {}
        self._kinds: dict[str, str] = {metric.name: metric.type for metric in CANONICAL_METRICS}
        self._error: str | None = None

    def answered(self, answer: Answer) -> list[Reading]:
        """Rows of a scrape: `up`, every series that changed, and each that is gone."""
        now, rows = answer.time_unix_ns, [self._row(answer.time_unix_ns, UP.name, (), 1.0)]
        rows += self._end_error(now)
        seen = dict(self._series(answer))
        rows += [
            self._row(now, *key, value, self._kind(key[0], answer))
            for key, value in seen.items()
            if key not in self._last or self._last[key] != value
        ]
        gone = [key for key, value in self._last.items() if value is not None and key not in seen]
        rows += [self._row(now, *key, None, self._kind(key[0], answer)) for key in gone]
        self._last |= seen | dict.fromkeys(gone)
        return rows

    def failed(self, time_unix_ns: int, reason: str) -> list[Reading]:
        """Rows of a scrape that came to nothing; the series keep what they had."""
        rows = [self._row(time_unix_ns, UP.name, (), 0.0)]
        if reason != self._error:
            rows += self._end_error(time_unix_ns)
            self._error = reason
            rows.append(self._row(time_unix_ns, SCRAPE_ERROR.name, (("reason", reason),), 1.0))
        return rows

    def _series(self, answer: Answer) -> Iterator[tuple[SeriesKey, float | None]]:
        """Raw and canonical series, and what the scrape itself was like; bounded."""
        translated = answer.translated.values if answer.translated is not None else {}
        n_free = MAX_SERIES - len(self._last)
        n_left_out = 0
        for key, value in (*translated.items(), *answer.page.values.items()):
            if key in self._last:
                yield key, number(value)
            elif n_free > 0:
                n_free -= 1
                yield key, number(value)
            else:
                n_left_out += 1
        for name in missing(answer):
            yield (MISSING.name, (("quantity", name),)), 1.0
        for kind, count in answer.page.anomalies.items():
            yield (ODD.name, (("kind", kind),)), float(count)
        if n_left_out:
            yield (LEFT_OUT.name, ()), float(n_left_out)

    def _kind(self, name: str, answer: Answer) -> str:
        if name not in self._kinds:
            self._kinds[name] = "histogram" if name.startswith("llm:") else answer.kind_of(name)
        return self._kinds[name]

    def _end_error(self, now: int) -> list[Reading]:
        if self._error is None:
            return []
        reason, self._error = self._error, None
        return [self._row(now, SCRAPE_ERROR.name, (("reason", reason),), None)]

    def _row(
        self, now: int, name: str, labels: tuple[tuple[str, str], ...], value: float | None,
        kind: str = "gauge",
    ) -> Reading:  # fmt: skip
        return Reading(now, self.source, name, labels, value, kind)
