"""What the server said, cell by cell: figures of the cell's own time, null where it is silent."""

from typing import Any

import pytest

from harness.findings.evidence import Evidence
from harness.findings.server_said import server_said
from harness.metrics.window import Telemetry
from tests.make_records import make_evidence
from tests.telemetry_rows import rows, scrapes, telemetry

OFFSET_S = 1_000


def evidence(found: Telemetry | None) -> Evidence:
    """The small run, of which every cell lasts some seconds, with this telemetry."""
    plain = make_evidence()
    frame = plain.rows.copy()
    start = {cell: 10 * place for place, cell in enumerate(sorted(set(frame["cell"])))}
    frame["sent_ns"] = [int(start[cell] * 1e9) for cell in frame["cell"]]
    frame["done_ns"] = [int((start[cell] + 4) * 1e9) for cell in frame["cell"]]
    run: dict[str, Any] = {
        **plain.run,
        "sessions": [{"number": 1, "realtime_minus_monotonic_ns": int(OFFSET_S * 1e9)}],
    }
    return make_evidence(rows=frame, run=run, telemetry=found)


def at(*seconds: float) -> list[float]:
    return [OFFSET_S + second for second in seconds]


SCRAPES = scrapes(*at(*range(35)), source="target")


def series(name: str, points: dict[float, float], **labels: str) -> Any:
    return rows(
        name, [(OFFSET_S + at, value) for at, value in points.items()], source="target", **labels
    )


ENGINE = series("llm:engine_info", {0: 1}, engine="vllm")


def test_figures_are_of_the_cells_own_time() -> None:
    """The first cell lasts from 0 to 4 s, the second from 10 to 14: each has its own values."""
    said = server_said(
        evidence(
            telemetry(
                SCRAPES, ENGINE, series("llm:kv_usage_ratio", {0: 0.2, 4: 0.6, 5: 0.9, 10: 0.5}),
                series("llm:requests_waiting", {0: 0, 12: 6, 13: 0}),
                series("llm:output_tokens_total", {t: 30.0 * t for t in range(35)}),
                series("llm:prefix_query_tokens_total", {0: 0, 2: 100, 12: 300}),
                series("llm:prefix_hit_tokens_total", {0: 0, 2: 25, 12: 175}),
                series("llm:preemptions_total", {0: 5, 3: 7}),
                series("mc_accel_gc_pause_seconds_sum", {0: 0, 4: 0.2}, process="front"),
                series("mc_accel_gc_pause_seconds_sum", {0: 0, 4: 0.8}, process="default"),
            )
        )
    )  # fmt: skip
    assert said is not None
    assert said.engine == "vllm"
    first, second = said.cells[:2]
    assert first.n_scrapes == 5
    assert first.kv_usage_mean == pytest.approx((4 * 0.2 + 0.6) / 5)
    assert (first.kv_usage_max, second.kv_usage_max) == (0.6, 0.5)
    assert (first.waiting_max, second.waiting_max) == (0, 6)
    assert second.waiting_mean == pytest.approx(6 / 5)
    assert first.output_tokens_per_s == pytest.approx(30)
    assert first.prefix_hit_share == 0.25
    assert second.prefix_hit_share == pytest.approx(0.75)
    assert (first.preemptions, second.preemptions) == (2, 0)
    assert first.gc_pause_share == pytest.approx(0.2), "the process that pauses most"
    assert first.running_mean is None
    assert first.queue_p99_s is None


def test_the_queue_is_a_quantile_of_what_was_counted() -> None:
    """Three of four waited less than 0.1 s; beyond the last bound it is at least that."""
    buckets = [
        series("llm:queue_seconds_bucket", {0: 0, 2: 3, 12: 3}, le="0.1"),
        series("llm:queue_seconds_bucket", {0: 0, 2: 4, 12: 4}, le="0.2"),
        series("llm:queue_seconds_bucket", {0: 0, 2: 4, 12: 9}, le="+Inf"),
    ]
    said = server_said(evidence(telemetry(SCRAPES, ENGINE, *buckets)))
    assert said is not None
    assert said.cells[0].queue_p99_s == pytest.approx(0.196)
    assert said.cells[1].queue_p99_s == 0.2


def test_a_cell_between_two_scrapes_has_no_figures() -> None:
    """Its number of scrapes says why, and so does a caveat."""
    seldom = scrapes(*at(0, 4, 12, 24), source="target")
    said = server_said(evidence(telemetry(seldom, ENGINE, series("llm:kv_usage_ratio", {0: 0.2}))))
    assert said is not None
    assert [cell.n_scrapes for cell in said.cells] == [2, 1, 1, 0]
    assert [cell.kv_usage_mean for cell in said.cells] == [0.2, None, None, None]
    assert said.caveats == [
        "3 of 4 cells were measured for less than two scrapes: no figures there"
    ]


def test_a_prefix_share_that_only_the_server_knows_is_taken() -> None:
    """SGLang tells a ratio and no counters."""
    said = server_said(
        evidence(telemetry(SCRAPES, ENGINE, series("llm:prefix_hit_ratio", {0: 0.3})))
    )
    assert said is not None
    assert said.cells[0].prefix_hit_share == pytest.approx(0.3)


def test_without_the_targets_metrics_there_is_no_table() -> None:
    """No telemetry, another source's, and a server of no known kind."""
    assert server_said(evidence(None)) is None
    assert server_said(evidence(telemetry(scrapes(*at(0, 1))))) is None
    assert server_said(evidence(telemetry(SCRAPES, series("x", {0: 1})))) is None
