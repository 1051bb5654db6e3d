"""Telemetry between two times: rates of counters, values of gauges, quantiles of histograms.

Pure: works on the frame of `records.telemetry`, or on one with the same columns from elsewhere
(Prometheus, a fixture). A value holds until the next row of its series; absent is None, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

UP: Final = "up"
NS: Final = 1e9
_BUCKET: Final = "_bucket"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """One series at its source's scrapes; NaN where it had no value.

    Attributes:
        labels: its labels.
        kind: counter, gauge, histogram, summary or unknown, as its source declared it.
        times: unix times of its source's scrapes.
        held: its value at each.
        alive: whether the scrape was answered.

    Shapes: times, held, alive (n_scrapes,).
    """

    labels: dict[str, str]
    kind: str
    times: Floats
    held: Floats
    alive: NDArray[np.bool_]

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether it has all of these."""
        return all(self.labels.get(name) == value for name, value in labels.items())

    def growth(self) -> Floats:
        """Growth of a counter since the first scrape, at each scrape.

        A counter that goes back has begun again at zero, and so has one that its source answered
        without before; of what it held at the source's first answer nothing is known.
        """
        known = ~np.isnan(self.held)
        values, where = self.held[known], np.flatnonzero(known)
        grown = np.zeros(len(self.held))
        if values.size:
            steps = np.diff(values)
            grown[where[1:]] = np.where(steps < 0, values[1:], steps)
            grown[where[0]] = values[0] if self.alive[: where[0]].any() else 0.0
        return np.cumsum(grown)

    def increases(self, edges: Floats) -> Floats:
        """Growth of a counter between consecutive times; NaN where it was not there to be read.

        Shapes: edges (n + 1,), ascending; returns (n,).
        """
        grown = np.diff(np.interp(edges, self.times, self.growth()))
        seen = self.times[self.alive & ~np.isnan(self.held)]
        return np.where(np.histogram(seen, edges)[0] > 0, grown, math.nan)

    def means(self, edges: Floats) -> Floats:
        """Mean of a gauge's readings between consecutive times; NaN where there is none.

        Shapes: edges (n + 1,), ascending; returns (n,).
        """
        seen = self.alive & ~np.isnan(self.held)
        n, _ = np.histogram(self.times[seen], edges)
        totals, _ = np.histogram(self.times[seen], edges, weights=self.held[seen])
        return np.where(n > 0, totals / np.maximum(n, 1), math.nan)

    def is_there(self, start: float, end: float) -> bool:
        """Whether it had a value at any scrape of this time, or at the last before a short one."""
        known = ~np.isnan(self.held)
        inside = (self.times >= start) & (self.times <= end)
        if inside.any():
            return bool((known & inside).any())
        place = int(np.searchsorted(self.times, start)) - 1
        return place >= 0 and bool(known[place])


class Telemetry:
    """All that was scraped, by name; made once, asked through windows."""

    def __init__(self, frame: pd.DataFrame) -> None:
        """Index a frame with the columns of `records.telemetry.SCHEMA`."""
        self._frame = frame
        self._rows = frame.groupby("name", sort=True).indices
        seconds = frame["time_unix_ns"].to_numpy() / NS
        self._times = {
            str(source): np.unique(seconds[rows])
            for source, rows in frame.groupby("source").indices.items()
        }
        self._down = self._failed_scrapes()
        self._cache: dict[str, list[Series]] = {}

    @property
    def names(self) -> list[str]:
        """Every name that has a series."""
        return [str(name) for name in self._rows]

    @property
    def sources(self) -> list[str]:
        """Everything that was scraped."""
        return list(self._times)

    @property
    def span(self) -> tuple[float, float]:
        """Unix times of the first and the last scrape."""
        return (
            min(float(times[0]) for times in self._times.values()),
            max(float(times[-1]) for times in self._times.values()),
        )

    def window(self, *spans: tuple[float, float]) -> Window:
        """Everything between these unix times, several spans together; all there is without any."""
        return Window(telemetry=self, spans=_merged(spans or (self.span,)))

    def of_source(self, source: str) -> Telemetry:
        """What one source said."""
        return Telemetry(self._frame[self._frame["source"] == source].reset_index(drop=True))

    def before(self, unix_s: float) -> Telemetry | None:
        """What was said until then; None where nothing was."""
        rows = self._frame[self._frame["time_unix_ns"] < unix_s * NS]
        return Telemetry(rows.reset_index(drop=True)) if len(rows) else None

    def up(self, source: str) -> list[tuple[float, bool]]:
        """When the source was asked, and whether it answered."""
        down = self._down.get(source, frozenset())
        return [(float(time), float(time) not in down) for time in self._times[source]]

    def kind(self, name: str) -> str:
        """What a name was declared as; empty for one without a row."""
        rows = self._rows.get(name, [])
        return str(self._frame["kind"].iloc[rows[0]]) if len(rows) else ""

    def series(self, name: str) -> list[Series]:
        """Every series of a name, held at its source's scrapes."""
        if name not in self._cache:
            self._cache[name] = list(self._held(name))
        return self._cache[name]

    def _held(self, name: str) -> Iterator[Series]:
        rows = self._frame.iloc[self._rows.get(name, [])]
        pairs: Any
        for (source, pairs), part in rows.groupby(["source", "labels"], sort=False):
            times = self._times[str(source)]
            changed = part["time_unix_ns"].to_numpy() / NS
            place = np.searchsorted(changed, times, side="right") - 1
            values = np.where(place < 0, math.nan, part["value"].to_numpy(float)[place])
            down = self._down.get(str(source), frozenset())
            alive = np.array([time not in down for time in times], dtype=bool)
            kind = str(part["kind"].iloc[-1])
            yield Series(labels=dict(pairs), kind=kind, times=times, held=values, alive=alive)

    def _failed_scrapes(self) -> dict[str, frozenset[float]]:
        rows = self._frame.iloc[self._rows.get(UP, [])]
        down = rows[(rows["value"] == 0) & (rows["labels"].map(len) == 0)]
        return {
            str(source): frozenset(part.to_numpy() / NS)
            for source, part in down.groupby("source")["time_unix_ns"]
        }


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some stretches of time of a telemetry, asked as one.

    Attributes:
        telemetry: what was scraped.
        spans: unix times from and to, in order.

    Every question takes labels that a series must have; one without any matching series, or without
    a scrape in this time, is None.
    """

    telemetry: Telemetry
    spans: tuple[tuple[float, float], ...]

    @property
    def start_s(self) -> float:
        """Unix time of the beginning."""
        return self.spans[0][0]

    @property
    def end_s(self) -> float:
        """Unix time of the end."""
        return self.spans[-1][1]

    def series(self, name: str) -> Sequence[dict[str, str]]:
        """Labels of every series of this name that has a value in this time."""
        return [each.labels for each in self._matching(name, {}) if self._values(each).size]

    def increase(self, name: str, **labels: str) -> float | None:
        """Growth of a counter, over all matching series together; resets are seen through."""
        found = [grown for each in self._matching(name, labels) if (grown := self._grown(each))]
        return sum(increase for increase, _ in found) if found else None

    def rate(self, name: str, **labels: str) -> float | None:
        """Growth per second of a counter, over all matching series together."""
        found = [grown for each in self._matching(name, labels) if (grown := self._grown(each))]
        seconds = max((covered for _, covered in found), default=0.0)
        return sum(increase for increase, _ in found) / seconds if seconds > 0 else None

    def mean(self, name: str, **labels: str) -> float | None:
        """Mean of a gauge over time and over the matching series."""
        values = self.values(name, **labels)
        return float(values.mean()) if values.size else None

    def maximum(self, name: str, **labels: str) -> float | None:
        """Largest value of a gauge."""
        values = self.values(name, **labels)
        return float(values.max()) if values.size else None

    def quantile(self, name: str, q: float, **labels: str) -> float | None:
        """Quantile of what a histogram counted in this time, all matching series together.

        Interpolated within its bucket, as Prometheus does; beyond the last bound it is that bound:
        at least so much.
        """
        counts: dict[float, float] = {}
        for each in self._matching(name + _BUCKET, labels):
            grown, bound = self._grown(each), _bound(each.labels.get("le", ""))
            if grown and bound is not None:
                counts[bound] = counts.get(bound, 0.0) + grown[0]
        return quantile_of_buckets(counts, q)

    def values(self, name: str, **labels: str) -> Floats:
        """Every value of the matching series at the scrapes of this time."""
        parts = [self._values(each) for each in self._matching(name, labels)]
        return np.concatenate(parts) if parts else np.empty(0)

    def points(self, name: str, **labels: str) -> tuple[Floats, Floats]:
        """Times and values of a gauge, the largest of the matching series at each scrape."""
        found: dict[float, float] = {}
        for each in self._matching(name, labels):
            inside = self._inside(each)
            for time, value in zip(each.times[inside], each.held[inside], strict=True):
                found[float(time)] = max(found.get(float(time), -math.inf), float(value))
        times = sorted(found)
        return np.array(times), np.array([found[time] for time in times])

    def _matching(self, name: str, labels: Mapping[str, str]) -> list[Series]:
        return [each for each in self.telemetry.series(name) if each.has(labels)]

    def _inside(self, series: Series) -> NDArray[np.bool_]:
        """Scrapes of this time that found a value."""
        during = np.zeros(len(series.times), dtype=bool)
        for start, end in self.spans:
            during |= (series.times >= start) & (series.times <= end)
        return during & series.alive & ~np.isnan(series.held)

    def _values(self, series: Series) -> Floats:
        return series.held[self._inside(series)]

    def _grown(self, series: Series) -> tuple[float, float] | None:
        """Growth and the seconds it was watched; between two scrapes it is taken as even."""
        grown, seconds = 0.0, 0.0
        growth = series.growth()
        for start, end in self.spans:
            low, high = max(start, float(series.times[0])), min(end, float(series.times[-1]))
            if high > low and series.is_there(low, high):
                at_low, at_high = np.interp([low, high], series.times, growth)
                grown += float(at_high - at_low)
                seconds += high - low
        return (grown, seconds) if seconds > 0 else None


def _merged(spans: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Spans in order, those that overlap as one."""
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return tuple(merged)


def quantile_of_buckets(counts: Mapping[float, float], q: float) -> float | None:
    """Quantile of a histogram: cumulative counts by upper bound, `inf` among them.

    None without a count; beyond the last finite bound it is that bound: at least so much.
    """
    bounds = sorted(counts)
    if not bounds or bounds[-1] != math.inf or counts[math.inf] <= 0:
        return None
    below = np.maximum.accumulate([counts[bound] for bound in bounds])
    rank = q * below[-1]
    place = int(np.searchsorted(below, rank, side="left"))
    upper = bounds[place]
    lower = bounds[place - 1] if place else min(0.0, upper)
    before = float(below[place - 1]) if place else 0.0
    if math.isinf(upper):
        return lower if place else None
    share = (rank - before) / (float(below[place]) - before) if below[place] > before else 1.0
    return float(lower + (upper - lower) * share)


def _bound(text: str) -> float | None:
    """A bucket's bound as the number it is: `1e+06` and `1000000.0` are one."""
    try:
        return float(text)
    except ValueError:
        return None
