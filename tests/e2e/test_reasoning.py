"""Reasoning on the bundled server, run by itself and as a chain of calls: the same columns."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.cli.analyse import analyse
from harness.metrics.steps import step_rows
from harness.records.frame import to_frame
from harness.records.run import RunFolder
from harness.records.store import read_rows
from harness.report.html import write_report
from harness.server.options import ServerOptions
from harness.server.process import start_server
from tests.e2e.truth_process import records_of
from tests.unit.load.test_engine import Run

pytestmark = pytest.mark.e2e
DEPTH, STEP, PROMPT = 3, 6, 48


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_server(ServerOptions(port=0, threads=1, kv_tokens=4096)) as server:
        yield server.url


def reasoning(mode: str, api: str) -> dict[str, Any]:
    return {
        "schema": 1, "name": "reasoning", "title": "Reasoning", "seed": 5, "prompt_tokens": PROMPT,
        "target": {"api": api},
        "load": {"concurrency": 2, "requests_per_cell": 6, "segments_per_cell": 1,
                 "warmup_requests": 2},
        "output": {"tokens": 5},
        "cot": {"mode": mode, "step_tokens": STEP},
        "axes": {"cot_depth": [0, DEPTH]},
        "analysis": {"axis": "cot_depth"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("mode", "api"),
    [("server", "openai-chat"), ("chained", "openai-chat"), ("chained", "openai-completions")],
)
def test_steps_are_recorded_alike_whoever_runs_them(
    tmp_path: Path, url: str, mode: str, api: str
) -> None:
    """Depth 3: four steps of the lengths asked, each with its stamps, in a growing context."""
    run = Run(url, tmp_path, reasoning(mode, api)).to_end()
    session, records = records_of(run.path)
    deep = [r for r in records if session.plan.cell(r.cell).cot_depth == DEPTH]
    assert len(records) == 16
    assert len(deep) == 8
    assert all(record.outcome.is_ok for record in records), [r.error for r in records]
    assert all(record.step_start_ns == () for record in records if record not in deep)
    for record in deep:
        assert record.n_prompt_tokens == PROMPT
        assert record.step_tokens == (STEP, STEP, STEP, 5)
        assert record.n_reasoning_tokens == DEPTH * STEP
        assert record.n_output_tokens == DEPTH * STEP + 5
        assert record.first_output_ns == record.step_first_ns[-1]
        stamps = zip(record.step_start_ns, record.step_first_ns, record.step_done_ns, strict=True)
        flat = [stamp or 0 for step in stamps for stamp in step]
        assert flat == sorted(flat)
        assert (flat[0], flat[-1]) == (record.intended_ns, record.done_ns)
    rows = step_rows(to_frame(read_rows(session.run)))
    assert (rows.loc[rows["step"] == 1, "kv_growth"] == STEP).all()
    assert (rows.loc[rows["step"] > 1, "kv_growth"] > 0).all()


def test_the_report_of_a_chain_shows_its_steps(tmp_path: Path, url: str) -> None:
    """Analysis and page hold four steps of the deep cell and none of the plain one."""
    run = Run(url, tmp_path, reasoning("chained", "openai-chat")).to_end()
    report = analyse(RunFolder.open(run.path))
    plain, deep = report.cells
    assert plain.steps == []
    assert [(step.step, step.is_answer) for step in deep.steps] == [
        (1, False), (2, False), (3, False), (4, True),
    ]  # fmt: skip
    assert all(step.n == 6 and step.ttft_s["p50"].value for step in deep.steps)
    assert deep.outcomes == {"ok_length": 6}
    page = write_report(report, run.path).read_text(encoding="utf-8")
    assert "Step by step" in page
