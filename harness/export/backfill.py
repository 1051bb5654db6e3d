"""A run that is over as series over time, as if it had been scraped at a fixed step.

A row counts at the first step after its end. A cell's values are written where they changed, one
step before (so that a rate sees where the rise began), and at the run's end; before its first row
a series is zero.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from harness.base.errors import RecordError
from harness.export.cell_counts import COLUMNS, CellCounts
from harness.export.family import Point
from harness.export.openmetrics_file import OpenMetricsFile
from harness.export.run_labels import cell_labels, factor_words, service_labels
from harness.metrics.catalogue import load as catalogue
from harness.metrics.catalogue.metric import Metric
from harness.plan.plan import Plan
from harness.scenario.schema import Scenario

STEP_S: Final = 5
MAX_STEPS: Final = 720
"""An hour at the usual step; longer runs have longer steps."""


@dataclass(frozen=True, kw_only=True)
class PastRun:
    """A run as it was stored.

    Attributes:
        scenario: what was wanted.
        plan: what was intended.
        about: `run.json`.
        rows: every row.
    """

    scenario: Scenario
    plan: Plan
    about: Mapping[str, Any]
    rows: pa.Table


class Steps(NamedTuple):
    """The times that are written, seconds since the epoch.

    Attributes:
        first: the step before the first row.
        last: the step at or after the last row's end.
        width: seconds between two.
    """

    first: int
    last: int
    width: int

    def all(self) -> range:
        """Every time, both ends included."""
        return range(self.first, self.last + 1, self.width)


class _Series(NamedTuple):
    metric: Metric
    labels: tuple[str, ...]
    suffix: str
    le: str | None


def add_history(run: PastRun, file: OpenMetricsFile) -> Steps:
    """Add the run's series to the file.

    Raises:
        RecordError: no row, or a session without a clock.
    """
    rows = _timed(run)
    steps = _steps(rows)
    rows["step"] = -(-(rows["ended_s"] - steps.first) // steps.width)  # the first one not before
    labels = cell_labels(run.scenario, run.plan)
    for cell, each in rows[~rows["is_warmup"].astype(bool)].groupby("cell", sort=True):
        _add_cell(each, labels[str(cell)], steps, file)
    _add_run(run, rows, steps, file)
    return steps


def _timed(run: PastRun) -> pd.DataFrame:
    """The rows with the wall-clock seconds of their start and end."""
    rows: pd.DataFrame = run.rows.select(COLUMNS).to_pandas()
    if rows.empty:
        raise RecordError(f"{run.about['id']}: no request left a record: there is nothing to write")
    offset_ns = rows["session"].map(_clocks(run.about)).astype("int64")
    ended_ns = rows["done_ns"].fillna(rows["sent_ns"]).fillna(rows["intended_ns"]).astype("int64")
    rows["began_s"] = (rows["intended_ns"] + offset_ns) / 1e9
    rows["ended_s"] = (ended_ns + offset_ns) / 1e9
    return rows


def _clocks(about: Mapping[str, Any]) -> dict[int, int]:
    """Realtime minus monotonic by session."""
    clocks = {each["number"]: each.get("realtime_minus_monotonic_ns") for each in about["sessions"]}
    unknown = [str(number) for number, offset in clocks.items() if offset is None]
    if unknown:
        raise RecordError(
            f"{about['id']}: session {', '.join(unknown)} was recorded without the wall clock's "
            "place (run.json: realtime_minus_monotonic_ns); its rows have no time in Prometheus"
        )
    return clocks


def _steps(rows: pd.DataFrame) -> Steps:
    first, last = int(rows["began_s"].min()), int(np.ceil(rows["ended_s"].max()))
    width = max(1, -(-(last - first) // MAX_STEPS // STEP_S)) * STEP_S
    first -= first % width + width
    return Steps(first, last + -last % width, width)


def _add_cell(
    rows: pd.DataFrame, labels: tuple[str, ...], steps: Steps, file: OpenMetricsFile
) -> None:
    counts = CellCounts()
    points: dict[_Series, list[tuple[int, float]]] = {}
    for number in sorted(rows["step"].unique().tolist()):
        counts.add(rows[rows["step"] == number], ())
        _note(points, counts, labels, steps.first + int(number) * steps.width, steps.width)
    _note(points, counts, labels, steps.last, None)
    by_metric: dict[Metric, dict[_Series, list[tuple[int, float]]]] = {}
    for series, values in points.items():
        by_metric.setdefault(series.metric, {})[series] = values
    for metric, each_series in by_metric.items():
        file.add(metric, _in_order(each_series))


def _note(
    points: dict[_Series, list[tuple[int, float]]],
    counts: CellCounts,
    labels: tuple[str, ...],
    at_s: int,
    width: int | None,
) -> None:
    """Note the counts as they are at this time, and as they were one step before."""
    for metric, each in counts.points(labels):
        for point in each:
            values = points.setdefault(_Series(metric, point.labels, point.suffix, point.le), [])
            before_s, before = values[-1] if values else (0, 0.0)
            if width is not None and before_s < at_s - width:
                values.append((at_s - width, before))
            if before_s < at_s:
                values.append((at_s, point.value))


def _in_order(points: Mapping[_Series, list[tuple[int, float]]]) -> Iterator[Point]:
    """A label set's samples of one time together, times rising, as OpenMetrics wants them."""
    groups: dict[tuple[str, ...], dict[int, list[Point]]] = {}
    for series, values in points.items():
        times = groups.setdefault(series.labels, {})
        for at_s, value in values:
            point = Point(series.labels, value, series.suffix, series.le, None, at_s)
            times.setdefault(at_s, []).append(point)
    for times in groups.values():
        for at_s in sorted(times):
            yield from times[at_s]


def _add_run(run: PastRun, rows: pd.DataFrame, steps: Steps, file: OpenMetricsFile) -> None:
    """What is true of the whole run: up while a session was at work, info, plan, running cell."""
    name = str(run.about["id"])
    service, version, scenario = service_labels(run.scenario)
    info = (name, scenario, service, version, str(run.about["target"]))
    up = _is_at_work(rows, ["session"], steps)
    file.add(catalogue.RUN_UP, _over_time((name,), up, steps))
    file.add(catalogue.RUN_INFO, _constant(info, 1, steps))
    file.add(catalogue.PLANNED, _constant((name,), run.plan.n_measured, steps))
    labels = cell_labels(run.scenario, run.plan)
    for cell in run.plan.cells:
        running = _is_at_work(rows[rows["cell"] == cell.id], ["session", "segment"], steps)
        where = (*labels[cell.id], factor_words(cell.factors))
        file.add(catalogue.CELL_RUNNING, _over_time(where, running, steps))


def _is_at_work(rows: pd.DataFrame, by: list[str], steps: Steps) -> NDArray[np.bool_]:
    """At each step, whether it lies between the first start and the last end of a group."""
    times = np.array(steps.all())
    at_work = np.zeros(len(times), dtype=bool)
    if len(rows):
        for _, each in rows.groupby(by, sort=False):
            at_work |= (times >= each["began_s"].min()) & (times < each["ended_s"].max())
    return at_work


def _over_time(labels: tuple[str, ...], values: Iterable[float], steps: Steps) -> Iterator[Point]:
    for at_s, value in zip(steps.all(), values, strict=True):
        yield Point(labels, int(value), at=at_s)


def _constant(labels: tuple[str, ...], value: float, steps: Steps) -> Iterator[Point]:
    return _over_time(labels, [value] * len(steps.all()), steps)
