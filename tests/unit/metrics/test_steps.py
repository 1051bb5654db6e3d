"""Reasoning steps as latencies, and what lies between the calls of a chain."""

import numpy as np
import pytest

from harness.load.chain import Call, fold
from harness.metrics.components import COMPONENT_NAMES, component_matrix
from harness.metrics.latency import LATENCIES, itl_s
from harness.metrics.steps import call_lag_s, step_rows, think_s
from harness.metrics.throughput import STRETCH
from harness.records.request import RequestRecord
from tests.make_records import MS, make_record
from tests.unit.metrics.test_latency import frame


def chain() -> RequestRecord:
    """Two calls: the second meant 4 ms after the first one's end, sent 1 ms late."""
    first = make_record(start_ns=0, sent_ns=2 * MS)
    end = first.done_ns or 0
    later = make_record(start_ns=end + 4 * MS, sent_ns=end + 5 * MS, n_prompt_tokens=75)
    calls = [
        Call(intended_ns=record.intended_ns, record=record, n_bytes=1) for record in (first, later)
    ]
    folded = fold(calls, 2)
    return make_record(**{**_fields(folded), "start_ns": 0})


def _fields(record: RequestRecord) -> dict[str, object]:
    names = [name for name in record.__slots__ if name != "intended_ns"]
    return {name: getattr(record, name) for name in names}


def test_each_step_has_its_own_ttft_length_and_growth() -> None:
    """From the step's start to its first token and its end; growth counts from the prompt."""
    rows = step_rows(frame(make_record(), chain()))
    assert rows["step"].tolist() == [1, 2]
    assert rows["ttft_s"].tolist() == pytest.approx([0.010, 0.010])
    assert rows["duration_s"].tolist() == pytest.approx([0.016, 0.016])
    assert rows["kv_tokens"].tolist() == [68, 79]
    assert rows["kv_growth"].tolist() == [4, 11]


def test_an_unknown_stamp_is_no_zero() -> None:
    """A call without a token has no TTFT, no duration, no context: NaN."""
    broken = make_record(
        step_start_ns=(0,), step_sent_ns=(None,), step_first_ns=(None,), step_done_ns=(None,),
        step_tokens=(None,), step_kv_tokens=(None,),
    )  # fmt: skip
    assert step_rows(frame(broken)).drop(columns=[*STRETCH, "step"]).isna().all(axis=None)


def test_without_steps_there_is_nothing() -> None:
    """Plain requests have no step rows, no pause and no lag between calls."""
    rows = frame(make_record(), make_record())
    assert step_rows(rows).empty
    assert think_s(rows).tolist() == call_lag_s(rows).tolist() == [0.0, 0.0]


def test_the_gap_before_a_step_is_no_itl() -> None:
    """Two calls of four tokens 2 ms apart: six gaps of 2 ms, the pause between is not one."""
    assert itl_s(frame(chain())).tolist() == pytest.approx([0.002] * 6)


def test_a_server_that_goes_on_by_itself_has_the_same_rule() -> None:
    """A step that starts with the last token before it: that one gap is its TTFT."""
    tokens = make_record().token_ns
    steps = make_record(step_start_ns=(0, tokens[1]), step_sent_ns=(0, tokens[1]),
                        step_first_ns=(tokens[0], tokens[2]), step_done_ns=(tokens[1], tokens[3]),
                        step_tokens=(2, 2), step_kv_tokens=(66, 70))  # fmt: skip
    assert len(itl_s(frame(steps))) == 2
    assert len(itl_s(frame(make_record()))) == 3
    assert think_s(frame(steps)).tolist() == call_lag_s(frame(steps)).tolist() == [0.0]


@pytest.mark.parametrize("metric", ["ttft_s", "e2e_s", "service_ttft_s", "service_e2e_s"])
def test_the_components_of_a_chain_add_up(metric: str) -> None:
    """Pauses are `think`, late sends `client`, and nothing of a chain is left out."""
    rows = frame(make_record(), chain())
    matrix = component_matrix(rows, metric)
    assert matrix is not None
    assert matrix.sum(axis=1) == pytest.approx(LATENCIES[metric](rows))
    of_chain = dict(zip(COMPONENT_NAMES, matrix[1], strict=True))
    assert of_chain["think"] == pytest.approx(0.004 if "e2e" in metric else 0.0)
    late = {"ttft_s": 0.002, "e2e_s": 0.003, "service_ttft_s": 0.0, "service_e2e_s": 0.001}
    assert of_chain["client"] == pytest.approx(late[metric])
    assert np.isfinite(matrix).all()
