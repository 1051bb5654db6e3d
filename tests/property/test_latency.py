import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.metrics import latency
from harness.records.columns import to_batch
from harness.records.frame import to_frame
from harness.records.request import RequestRecord
from harness.records.store import StoredRows
from tests.make_records import make_record
from tests.oracles import latency_oracle


@st.composite
def records(draw: st.DrawFn) -> RequestRecord:
    """A request with a few tokens in fewer chunks, some read late, in steps or not."""
    begin = draw(st.integers(min_value=0, max_value=2**60))
    tokens = sorted(begin + n for n in draw(st.lists(st.integers(0, 40), max_size=12)))
    chunks = sorted({*tokens, *(begin + n for n in draw(st.lists(st.integers(0, 40), max_size=3)))})
    late = draw(st.lists(st.booleans(), min_size=len(chunks), max_size=len(chunks)))
    steps = sorted(begin + n for n in draw(st.lists(st.integers(-3, 44), max_size=4)))
    return make_record(
        token_ns=tuple(tokens), chunk_ns=tuple(chunks), late_read=tuple(late),
        step_start_ns=tuple(steps),
    )  # fmt: skip


@given(st.lists(records(), max_size=6))
def test_gaps_are_those_of_the_definition(given_records: list[RequestRecord]) -> None:
    """Whatever chunks, late reads and steps there are, in the order of the requests."""
    stored = StoredRows(
        table=pa.Table.from_batches([to_batch(given_records)] if given_records else [], SCHEMA),
        torn=(),
    )
    found = latency.itl_s(to_frame(stored))
    assert found == pytest.approx(latency_oracle.itl_s(given_records), rel=1e-9)


SCHEMA = to_batch([make_record()]).schema


def test_batches_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests handled in several batches give the gaps of one."""
    many = [make_record(start_ns=n * 10**9) for n in range(7)]
    rows = to_frame(StoredRows(table=pa.Table.from_batches([to_batch(many)]), torn=()))
    whole = latency.itl_s(rows)
    monkeypatch.setattr(latency, "_BATCH", 3)
    assert np.array_equal(latency.itl_s(rows), whole)
    assert len(whole) == 21
