import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from harness.metrics.components import COMPONENT_NAMES, component_matrix
from harness.metrics.latency import (
    LATENCIES,
    dispatch_lag_s,
    e2e_s,
    itl_s,
    rx_lag_s,
    service_ttft_s,
    tpot_s,
    ttfo_s,
    ttft_s,
)
from harness.metrics.stream import coalesced_share, exact_share, late_read_share
from harness.metrics.throughput import offered_rps, rate_rps, segment_seconds, sent_rps
from harness.records.columns import to_batch
from harness.records.frame import to_frame
from harness.records.request import RequestRecord
from harness.records.store import StoredRows
from tests.make_records import MS, make_record


def frame(*records: RequestRecord) -> pd.DataFrame:
    return to_frame(StoredRows(table=pa.Table.from_batches([to_batch(records)]), torn=()))


def test_latencies_count_from_the_intended_send() -> None:
    """A request that waited 0.5 s for a free user carries that half second; service_* does not."""
    late = make_record(start_ns=0, sent_ns=500 * MS, ttft_ns=600 * MS)
    rows = frame(late)
    assert ttft_s(rows) == pytest.approx([0.6])
    assert service_ttft_s(rows) == pytest.approx([0.1])
    assert dispatch_lag_s(rows) == pytest.approx([0.5])
    assert e2e_s(rows) == pytest.approx([0.606])


def test_ttfo_waits_for_output_beyond_reasoning() -> None:
    """TTFT stops at the first reasoning token, TTFO at the first other text."""
    rows = frame(make_record(start_ns=0, ttft_ns=10 * MS, first_output_ns=40 * MS))
    assert ttft_s(rows) == pytest.approx([0.010])
    assert ttfo_s(rows) == pytest.approx([0.040])


def test_tpot_needs_two_tokens_in_two_chunks() -> None:
    """One token, or all tokens in one chunk: undefined, never 0 or inf."""
    one_chunk = make_record(chunk_ns=(5,), late_read=(False,), n_output_tokens=4)
    one_token = make_record(n_output_tokens=1)
    found = tpot_s(frame(make_record(), one_chunk, one_token))
    assert found[0] == pytest.approx(0.002)
    assert np.isnan(found[1:]).all()


def test_tokens_of_one_chunk_share_its_gap() -> None:
    """Three tokens 12 ms after the first: three gaps of 4 ms, not one of 12 and two of 0."""
    stamps = (100 * MS, 112 * MS, 112 * MS, 112 * MS)
    rows = frame(
        make_record(token_ns=stamps, chunk_ns=(100 * MS, 112 * MS), late_read=(False,) * 2)
    )
    assert itl_s(rows) == pytest.approx([0.004] * 3)


def test_late_reads_leave_itl() -> None:
    """Both gaps beside a chunk whose stamp is only a bound are left out."""
    stamps = tuple(MS * t for t in (100, 102, 104, 106, 108))
    late = (False, False, True, False, False)
    rows = frame(make_record(token_ns=stamps, chunk_ns=stamps, late_read=late))
    assert itl_s(rows) == pytest.approx([0.002, 0.002])
    assert late_read_share(rows) == pytest.approx(0.2)


def test_what_did_not_happen_is_undefined_everywhere() -> None:
    """A request without tokens gives NaN per latency and no gap at all."""
    nothing = make_record(
        sent_ns=None, first_token_ns=None, first_output_ns=None, done_ns=None, rx_lag_ns=None,
        n_output_tokens=None, token_ns=(), chunk_ns=(), late_read=(),
    )  # fmt: skip
    rows = frame(nothing)
    for name, latency in LATENCIES.items():
        values = latency(rows)
        assert values.size == 0 if name == "itl_s" else np.isnan(values).all(), name
    assert np.isnan(rx_lag_s(rows)).all()
    assert late_read_share(rows) is None
    assert coalesced_share(rows) is None
    assert segment_seconds(rows) is None
    assert sent_rps(rows) is None


@pytest.mark.parametrize("metric", ["ttft_s", "service_ttft_s", "e2e_s", "service_e2e_s"])
def test_components_add_up_to_the_latency(metric: str) -> None:
    """Server phases, other, network and client leave nothing out."""
    rows = frame(make_record(), make_record(ttft_ns=25 * MS))
    matrix = component_matrix(rows, metric)
    assert matrix is not None
    assert matrix.sum(axis=1) == pytest.approx(LATENCIES[metric](rows))
    assert matrix[0, COMPONENT_NAMES.index("queue")] == pytest.approx(0.0045)


def test_decode_components_exclude_the_time_to_first_token() -> None:
    """For TPOT and ITL the split is what happened after the first token."""
    matrix = component_matrix(frame(make_record()), "tpot_s")
    assert matrix is not None
    assert matrix.sum() == pytest.approx(0.006)


def test_a_server_without_phases_has_no_split() -> None:
    """Foreign servers: rows of NaN, and TTFO has no split on any server."""
    foreign = make_record(phases={}, ttft_phases={}, server_ttft_s=None, server_e2e_s=None)
    matrix = component_matrix(frame(foreign), "ttft_s")
    assert matrix is not None
    assert np.isnan(matrix).all()
    assert component_matrix(frame(foreign), "ttfo_s") is None


def test_rates_are_taken_inside_segments() -> None:
    """Idle time between segments is not part of any rate."""
    rows = frame(
        *(make_record(segment="a", start_ns=t * 100 * MS, sent_ns=t * 100 * MS) for t in range(3)),
        *(make_record(segment="b", start_ns=10**11 + t * 100 * MS) for t in range(3)),
    )
    assert offered_rps(rows) == pytest.approx(10.0)
    assert rate_rps(3, 0.0) is None


def test_shares_count_what_is_known() -> None:
    """Coalesced gaps are zero gaps inside a response; exactness ignores uncounted rows."""
    stamps = (5 * MS, 5 * MS, 6 * MS)
    rows = frame(
        make_record(chunk_ns=stamps, late_read=(False,) * 3), make_record(n_prompt_tokens=None)
    ).assign(prompt_asked=[64.0, 64.0])
    assert coalesced_share(rows) == pytest.approx(1 / 5)
    assert exact_share(rows, "n_prompt_tokens", "prompt_asked") == 1.0
