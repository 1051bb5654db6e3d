"""Plain builders of records and evidence, with defaults that make a healthy run."""

from typing import Any

import numpy as np
import pyarrow as pa

from harness.findings.evidence import Evidence
from harness.plan.build import build_plan
from harness.plan.plan import Plan
from harness.records.columns import to_batch
from harness.records.frame import to_frame
from harness.records.request import Outcome, RequestRecord, Stamps
from harness.records.store import StoredRows
from harness.scenario.read import parse_scenario
from harness.scenario.schema import Scenario

MS = 1_000_000

SMALL = """
schema = 1
name = "small"
title = "Small"
seed = 7

[load]
concurrency = 2
requests_per_cell = 8
segments_per_cell = 2
warmup_requests = 2

[output]
tokens = 8
spread = 2

[axes]
prompt_tokens = [64, 128]
accelerated = [false, true]
"""


def make_scenario(text: str = SMALL) -> Scenario:
    """The scenario of this text."""
    return parse_scenario(text, "test.toml")


def make_record(**changes: Any) -> RequestRecord:
    """A request of four tokens: TTFT 10 ms, gaps of 2 ms, server phases that add up."""
    start = int(changes.pop("start_ns", 1_000 * MS))
    ttft_ns = int(changes.pop("ttft_ns", 10 * MS))
    tokens = tuple(start + ttft_ns + i * 2 * MS for i in range(4))
    server_ttft = (ttft_ns - MS) / 1e9
    values: dict[str, Any] = {
        "cell": "c00",
        "segment": "c00-r0",
        "outcome": Outcome.OK_LENGTH,
        "http_status": 200,
        "intended_ns": start,
        "sent_ns": start + MS // 50,
        "headers_ns": tokens[0],
        "first_byte_ns": tokens[0],
        "first_event_ns": tokens[0],
        "first_token_ns": tokens[0],
        "first_output_ns": tokens[0],
        "done_ns": tokens[-1],
        "token_ns": tokens,
        "chunk_ns": tokens,
        "late_read": (False,) * 4,
        "rx_lag_ns": 20_000,
        "n_prompt_tokens": 64,
        "n_output_tokens": 4,
        "n_reasoning_tokens": 0,
        "count_source": "usage",
        "finish_reason": ("length",),
        "phases": {"queue": server_ttft / 2, "attention": server_ttft / 2 + 0.006},
        "ttft_phases": {"queue": server_ttft / 2, "attention": server_ttft / 2},
        "server_ttft_s": server_ttft,
        "server_e2e_s": server_ttft + 0.006,
        "n_evictions": 0,
        "stamps": Stamps.KERNEL,
    }
    return RequestRecord(**{**values, **changes})


def records_of(plan: Plan, seed: int = 1) -> list[RequestRecord]:
    """A healthy answer to every planned request, with noisy TTFT."""
    rng = np.random.default_rng(seed)
    records, now = [], 1_000 * MS
    for segment in plan.segments:
        cell = plan.cell(segment.cell)
        for request in segment.requests:
            ttft = int(cell.prompt_tokens * 0.1 * MS * rng.lognormal(0, 0.1))
            features = ("paged_kv",) if cell.accelerated else ()
            records.append(
                make_record(
                    cell=cell.id,
                    segment=segment.id,
                    index=request.index,
                    is_warmup=request.is_warmup,
                    start_ns=now,
                    ttft_ns=ttft + 2 * MS,
                    n_prompt_tokens=cell.prompt_tokens,
                    n_output_tokens=request.max_tokens,
                    features=features,
                )
            )
            now += ttft + 20 * MS
    return records


def make_evidence(
    records: list[RequestRecord] | None = None, scenario: Scenario | None = None, **changes: Any
) -> Evidence:
    """A run's evidence; by default the healthy small run."""
    wanted = scenario or make_scenario()
    plan = build_plan(wanted)
    rows = records_of(plan) if records is None else records
    table = pa.Table.from_batches([to_batch(rows)])
    values: dict[str, Any] = {
        "scenario": wanted,
        "plan": plan,
        "rows": to_frame(StoredRows(table=table, torn=())),
        "torn": (),
        "client": {"cpu_share": 0.2, "clock_steps": 0, "stamps": "kernel"},
        "run": {
            "id": "20260101-000000-small",
            "target": "http://127.0.0.1:1",
            "started": "2026-01-01T00:00:00+00:00",
            "status": "complete",
        },
        "environment": {"python": "3.11"},
    }
    return Evidence(**{**values, **changes})
