"""Everything a finished run says, side by side: what rules and findings look at.

Pure: files were read by the caller. Analysed rows are whole answers that were not warm-up.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.metrics.throughput import STRETCH
from harness.metrics.window import Telemetry
from harness.plan.plan import Cell, Plan
from harness.records.fidelity import Fidelity
from harness.records.request import Outcome
from harness.scenario.schema import Scenario

NS = 1e9
OK_OUTCOMES = frozenset(outcome.value for outcome in Outcome if outcome.is_ok)


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A run, as read from its folder.

    Attributes:
        scenario: what was wanted.
        plan: what was intended.
        rows: one row per request that left a record (`records.frame`).
        torn: shards whose writer died.
        lost: shards with fewer rows than were acknowledged, and how many fewer.
        client: the load process about itself (`client.json`), empty if it died before writing it.
        run: id, target, start, status (`run.json`).
        environment: machine and versions.
        later_environments: machine and versions of every session after the first.
        fidelity: what came of comparing the paths' answers; None where nobody did.
        telemetry: what the target and other endpoints said meanwhile; None where nobody asked.
    """

    scenario: Scenario
    plan: Plan
    rows: pd.DataFrame
    torn: tuple[str, ...]
    client: dict[str, Any]
    run: dict[str, Any]
    environment: dict[str, str]
    lost: tuple[tuple[str, int], ...] = ()
    later_environments: tuple[dict[str, str], ...] = ()
    fidelity: Fidelity | None = None
    telemetry: Telemetry | None = None

    @cached_property
    def planned(self) -> pd.DataFrame:
        """The last row of each planned request: one that a stop cancelled may have been sent again.

        Warm-up that was sent once more before the rest of a broken segment is in no plan.
        """
        rows = self.rows[self.rows["index"] >= 0]
        return rows.sort_values("session", kind="stable").drop_duplicates(
            ["segment", "index"], keep="last"
        )

    @cached_property
    def answered(self) -> pd.DataFrame:
        """Planned requests that ended by themselves and not by a stop of ours."""
        return self.planned[self.planned["outcome"] != Outcome.CANCELLED.value]

    @cached_property
    def counted(self) -> pd.DataFrame:
        """Measured rows that say something of the target: those we cancelled do not."""
        return self.measured[self.measured["outcome"] != Outcome.CANCELLED.value]

    @property
    def _offsets(self) -> dict[Any, int | None]:
        """From the monotonic clock to the wall clock, by session; None where none was kept."""
        return {each["number"]: each.get("realtime_minus_monotonic_ns") for each in self.sessions}

    def between(self, start_s: float, end_s: float) -> pd.DataFrame:
        """Planned requests that were to be sent between these unix times, warm-up included."""
        offset = self.planned["session"].map(self._offsets).astype("Int64")
        sent = (self.planned["intended_ns"] + offset) / 1e9
        return self.planned[sent.between(start_s, end_s).fillna(value=False).astype(bool)]

    def unix_spans(self, rows: pd.DataFrame) -> list[tuple[float, float]]:
        """Unix times between which these rows were under way, one pair a stretch of a segment.

        A session of an older version, which kept no map to the wall clock, has none.
        """
        spans = []
        for (_, session), part in rows.groupby(list(STRETCH), sort=False):
            offset, end = self._offsets.get(session), part["done_ns"].max()
            if offset is not None and np.isfinite(end):
                spans.append(((part["sent_ns"].min() + offset) / NS, (end + offset) / NS))
        return sorted(spans)

    @property
    def n_missing(self) -> int:
        """Planned requests that are still to be made."""
        return self.plan.n_requests - len(self.answered)

    @property
    def sessions(self) -> list[dict[str, Any]]:
        """Each start of the load, as `run.json` tells; one for a run of an older version."""
        sessions: list[dict[str, Any]] = self.run.get("sessions") or [{"number": 1}]
        return sessions

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """Rounds after the first that are in the plan, as `run.json` tells them."""
        last = max((segment.repeat for segment in self.plan.segments), default=-1)
        return [each for each in self.run.get("rounds", ()) if each["first_repeat"] <= last]

    def segments_for(self, cell: str, why: str) -> set[str]:
        """Segments of a cell that were planned for this reason."""
        spans = [
            (each["first_repeat"], each["first_repeat"] + each["n_repeats"])
            for each in self.rounds
            if any((wish["cell"], wish["why"]) == (cell, why) for wish in each["wishes"])
        ]
        return {
            segment.id
            for segment in self.plan.segments
            if segment.cell == cell and any(a <= segment.repeat < b for a, b in spans)
        }

    @cached_property
    def measured(self) -> pd.DataFrame:
        """Rows that count: warm-up cut."""
        return self.planned[~self.planned["is_warmup"].astype(bool)]

    @cached_property
    def analysed(self) -> pd.DataFrame:
        """Measured rows with a whole answer, beside the lengths asked of each.

        Adds the columns `prompt_asked` and `output_asked`, in tokens.
        """
        rows = self.measured[self.measured["outcome"].isin(OK_OUTCOMES)]
        cells = {cell.id: cell for cell in self.plan.cells}
        max_tokens = {
            (segment.id, request.index): request.max_tokens
            for segment in self.plan.segments
            for request in segment.requests
        }
        keys = zip(rows["cell"], rows["segment"], rows["index"], strict=True)
        asked = [(cells[cell], max_tokens[segment, int(index)]) for cell, segment, index in keys]
        return rows.assign(
            prompt_asked=[float(cell.prompt_tokens) for cell, _ in asked],
            output_asked=[
                float(tokens + cell.cot_depth * cell.cot_step_tokens) for cell, tokens in asked
            ],
        )

    @cached_property
    def _analysed_by_cell(self) -> dict[str, pd.DataFrame]:
        ordered = self.analysed.sort_values(["segment", "session", "intended_ns"], kind="stable")
        return {str(name): rows for name, rows in ordered.groupby("cell")}

    @cached_property
    def _measured_by_cell(self) -> dict[str, pd.DataFrame]:
        return {str(name): rows for name, rows in self.measured.groupby("cell")}

    def cell_rows(self, cell: Cell) -> pd.DataFrame:
        """Analysed rows of a cell, by segment and intended send."""
        return self._analysed_by_cell.get(cell.id, self.analysed.iloc[:0])

    def cell_measured(self, cell: Cell) -> pd.DataFrame:
        """Measured rows of a cell, failures included."""
        return self._measured_by_cell.get(cell.id, self.measured.iloc[:0])


def by_segment(rows: pd.DataFrame, values: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """Finite values of the rows, one array per stretch, in order of time.

    A stretch is what one session sent of one segment: a crash cuts a segment in two.

    Shapes: values (len(rows),).
    """
    finite = np.isfinite(values)
    codes = [pd.factorize(rows[name])[0] for name in STRETCH]
    number = pd.factorize(codes[0] * (codes[1].max(initial=0) + 1) + codes[1])[0]
    parts = [values[(number == n) & finite] for n in range(number.max(initial=-1) + 1)]
    return [part for part in parts if part.size]
