"""A run's marks on a time axis: when, what, and under which tags."""

import numpy as np

from harness.export.annotations import MAX_SEGMENTS, marks_of
from harness.findings.cells import summarise_cells
from harness.findings.finding import Breakpoint, Verdict
from tests.make_records import MS, make_evidence

EVIDENCE = make_evidence()
CELLS = summarise_cells(EVIDENCE, [])
VERDICT = Verdict(status="pass", text="All is well.")
OFFSET_NS = 1_700_000_000_000 * MS
ABOUT = {"id": "r1", "sessions": [{"number": 1, "realtime_minus_monotonic_ns": OFFSET_NS}]}
BREAK = Breakpoint(
    metric="ttft_s", q=0.99, axis="prompt_tokens", at={"accelerated": False}, kind="jump",
    location=96, low=64, high=128, effect=0.5, effect_low=0.4, effect_high=0.6, width_octaves=1,
    component="attention", share=0.8, share_low=0.7, share_high=0.9, ranked=[],
    detectable_effect=0.1, caveats=[],
)  # fmt: skip


def test_run_segments_findings_and_verdict_are_marked() -> None:
    """Times are wall-clock milliseconds of the requests; tags lead from a run to its marks."""
    rows = EVIDENCE.rows
    marks = marks_of(about=ABOUT, rows=rows, cells=CELLS, breakpoints=[BREAK], verdict=VERDICT)
    whole, *others = marks
    start = (int(rows["intended_ns"].min()) + OFFSET_NS) // MS
    end = (int(rows["done_ns"].max()) + OFFSET_NS) // MS
    assert (whole.start_ms, whole.end_ms, whole.text) == (start, end, "run r1")
    assert whole.tags == ("tailbreak", "run:r1", "run")
    segments = [mark for mark in others if "cell" in mark.tags]
    assert len(segments) == rows["segment"].nunique()
    assert {mark.tags[-1] for mark in segments} == {f"cell:{cell.id}" for cell in CELLS}
    assert all(start <= mark.start_ms <= mark.end_ms <= end for mark in segments)
    assert any("on the baseline path, at prompt_tokens 64" in mark.text for mark in segments)
    found, said = others[-2:]
    assert found.tags[2:] == ("breakpoint", "metric:ttft_s", "axis:prompt_tokens")
    assert "between 64 and 128 prompt tokens" in found.text
    assert (said.tags[-1], said.text) == ("verdict:pass", "pass: All is well.")
    assert found.start_ms == found.end_ms == said.start_ms == end


def test_curves_without_a_break_are_not_marked() -> None:
    """A mark for what was not found would cover what was."""
    quiet = BREAK.model_copy(update={"kind": "none"})
    marks = marks_of(
        about=ABOUT, rows=EVIDENCE.rows, cells=CELLS, breakpoints=[quiet], verdict=VERDICT
    )
    assert not any("breakpoint" in mark.tags for mark in marks)


def test_a_session_without_a_wall_clock_is_left_out() -> None:
    """Monotonic times of another boot say nothing about when."""
    about = {"id": "r1", "sessions": [{"number": 1}]}
    assert not marks_of(about=about, rows=EVIDENCE.rows, cells=[], breakpoints=[], verdict=VERDICT)


def test_too_many_segments_are_none() -> None:
    """A board with a thousand regions shows nothing else; the run itself is still marked."""
    rows = EVIDENCE.rows.loc[np.repeat(EVIDENCE.rows.index[:1], MAX_SEGMENTS + 1)].copy()
    rows["segment"] = [f"s{n}" for n in range(len(rows))]
    marks = marks_of(about=ABOUT, rows=rows, cells=CELLS, breakpoints=[], verdict=VERDICT)
    assert [mark.tags[-1] for mark in marks] == ["run", "verdict:pass"]
