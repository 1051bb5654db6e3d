"""What is counted of a cell's rows, by hand: buckets, sums, outcomes, exemplars, what is absent."""

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry

from harness.export.family import families
from harness.export.run_counts import RunCounts
from harness.metrics.catalogue.load import CELL_LABELS
from harness.metrics.catalogue.metric import LATENCY_BUCKETS
from harness.records.columns import to_batch
from harness.records.request import Outcome, RequestRecord
from harness.records.trace import trace_id
from tests.exposition import Labels, Samples, labels, read_exemplars, read_samples, written
from tests.make_records import MS, make_record

CELL = ("svc", "1.0", "tiny", "c00", "")
MINE = dict(zip(CELL_LABELS, CELL, strict=True))
ABOUT = {"id": "run-1", "sessions": [{"number": 1, "realtime_minus_monotonic_ns": 5 * 10**9}]}


def counted(*records: RequestRecord) -> RunCounts:
    counts = RunCounts(ABOUT)
    counts.add(pa.Table.from_batches([to_batch(records)]))
    return counts


def text_of(counts: RunCounts) -> str:
    class Cells:
        def collect(self) -> object:
            return families(dict(counts.cells["c00"].points(CELL)))

    registry = CollectorRegistry()
    registry.register(Cells())  # type: ignore[arg-type]
    return written(registry)


def samples_of(*records: RequestRecord) -> Samples:
    return read_samples(text_of(counted(*records)))


def of(**more: str) -> Labels:
    return labels(**MINE, **more)


def buckets(found: Samples, name: str) -> dict[float, float]:
    """Bound to count, not cumulative."""
    rising = sorted(
        (float(dict(where)["le"]), n) for (each, where), n in found.items() if each == name
    )
    return {
        le: n - (rising[i - 1][1] if i else 0)
        for i, (le, n) in enumerate(rising)
        if n - (rising[i - 1][1] if i else 0)
    }


def test_each_value_is_in_its_own_bucket_and_the_sum_is_theirs() -> None:
    """A value on a bound belongs to that bound; above the last one it is in +Inf alone."""
    values_ms = [0.1, 10, 10.0001, 100_000, 200_000]
    found = samples_of(*(make_record(ttft_ns=int(ms * MS)) for ms in values_ms))
    above = min(bound for bound in LATENCY_BUCKETS if bound > 0.01)
    assert buckets(found, "mc_load_ttft_seconds_bucket") == {
        0.0001: 1, 0.01: 1, above: 1, 100.0: 1, float("inf"): 1,
    }  # fmt: skip
    assert found["mc_load_ttft_seconds_count", of()] == 5
    assert found["mc_load_ttft_seconds_sum", of()] == pytest.approx(sum(values_ms) / 1e3)
    n_bounds = sum(name == "mc_load_ttft_seconds_bucket" for name, _ in found)
    assert n_bounds == len(LATENCY_BUCKETS) + 1


def test_latencies_are_in_seconds_from_the_intended_send() -> None:
    """One answer of four tokens, TTFT 10 ms and gaps of 2 ms, sent 0.02 ms late: every sum."""
    found = samples_of(make_record())
    assert found["mc_load_ttft_seconds_sum", of()] == pytest.approx(0.010)
    assert found["mc_load_e2e_seconds_sum", of()] == pytest.approx(0.016)
    assert found["mc_load_itl_seconds_sum", of()] == pytest.approx(0.006)
    assert found["mc_load_itl_seconds_count", of()] == 3
    assert found["mc_load_dispatch_lag_seconds_sum", of()] == pytest.approx(0.00002)
    assert found["mc_load_rx_lag_seconds_sum", of()] == pytest.approx(0.00002)
    assert found["mc_load_prompt_tokens_total", of()] == 64
    assert found["mc_load_output_tokens_total", of()] == 4
    assert found["mc_load_chunks_total", of()] == 4


def test_warm_up_counts_nowhere() -> None:
    """Warm-up of a cell beside one measured request changes no sample; alone it makes no cell."""
    warm = make_record(is_warmup=True, ttft_ns=900 * MS)
    assert samples_of(make_record(), warm, warm) == samples_of(make_record())
    assert counted(warm).cells == {}


def test_failures_count_by_outcome_and_have_no_latency() -> None:
    """A refused request is a request, a failure and a lag; it has no part in TTFT or tokens.

    What a stop of ours cancelled is a request and no failure.
    """
    refused = make_record(outcome=Outcome.REJECTED, first_token_ns=None, n_prompt_tokens=None)
    cut = make_record(outcome=Outcome.TRUNCATED)
    ours = make_record(outcome=Outcome.CANCELLED)
    found = samples_of(make_record(), refused, cut, cut, ours)
    assert found["mc_load_requests_total", of(outcome="ok_length")] == 1
    assert found["mc_load_requests_total", of(outcome="rejected")] == 1
    assert found["mc_load_requests_total", of(outcome="truncated")] == 2
    assert found["mc_load_requests_total", of(outcome="cancelled")] == 1
    assert found["mc_load_failures_total", of()] == 3
    assert found["mc_load_ttft_seconds_count", of()] == 1
    assert found["mc_load_dispatch_lag_seconds_count", of()] == 5
    assert found["mc_load_output_tokens_total", of()] == 4


def test_late_chunks_are_counted_and_their_gaps_are_not() -> None:
    """Two of four chunks were read late: two late chunks, and no gap beside one."""
    found = samples_of(make_record(late_read=(False, False, True, True)))
    assert found["mc_load_chunks_total", of()] == 4
    assert found["mc_load_late_chunks_total", of()] == 2
    assert found["mc_load_itl_seconds_count", of()] == 1


def test_what_nobody_knows_has_no_series() -> None:
    """Without kernel stamps and token counts those series are absent; failures are a true zero."""
    found = samples_of(make_record(rx_lag_ns=None, n_prompt_tokens=None))
    names = {name for name, _ in found}
    assert not [name for name in names if "rx_lag" in name or "prompt_tokens" in name]
    assert found["mc_load_failures_total", of()] == 0


def test_the_exemplar_of_a_bucket_is_its_latest_request() -> None:
    """TTFT and E2E buckets name the last request by its trace id, value and wall-clock end."""
    early = make_record(index=1, segment="s0")
    late = make_record(index=2, segment="s0", start_ns=3_000 * MS)
    for order in ((early, late), (late, early)):
        found = read_exemplars(text_of(counted(*order)))
        exemplar = found["mc_load_ttft_seconds_bucket", of(le="0.01")]
        assert exemplar.labels == {"trace_id": trace_id("run-1", 1, "s0", 2)}
        assert exemplar.value == pytest.approx(0.01)
        assert exemplar.timestamp is not None
        assert float(exemplar.timestamp) == pytest.approx(5 + 3.016)
        assert {name for name, _ in found} == {
            "mc_load_ttft_seconds_bucket", "mc_load_e2e_seconds_bucket",
        }  # fmt: skip


def test_pieces_add_up_to_the_whole() -> None:
    """Counting rows in two pieces gives what counting them at once gives."""
    records = [make_record(index=i, ttft_ns=(5 + 3 * i) * MS) for i in range(9)]
    counts = counted(*records[:4])
    counts.add(pa.Table.from_batches([to_batch(records[4:])]))
    assert read_samples(text_of(counts)) == pytest.approx(samples_of(*records))
    assert counts.n_rows == 9
    assert counts.cells["c00"].n == 9
