"""Latency and stream figures of a handful of records, without numpy; pure.

The definitions are those of `harness.metrics.latency` and `harness.metrics.stream`; a test holds
the two together.
"""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from harness.records.request import RequestRecord

NS: Final = 1e9


@dataclass(frozen=True, kw_only=True)
class Figure:
    """Median and range of a latency in seconds.

    Attributes:
        n: samples, requests or gaps.
    """

    n: int
    median: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How the answers came.

    Attributes:
        count_source: who counted the output tokens, `usage` or `chunks`; `mixed` where it varies.
        tokens_per_chunk: output tokens over chunks with text; None without a chunk.
        late_read_share: chunks read together with others, whose stamp is an upper bound.
        coalesced_share: gaps of exactly zero.
        is_role_first: the first event carries no text.
        anomalies: oddities over all answers, by name.
    """

    count_source: str | None
    tokens_per_chunk: float | None
    late_read_share: float | None
    coalesced_share: float | None
    is_role_first: bool
    anomalies: dict[str, int]


def latency_figures(records: Sequence[RequestRecord]) -> dict[str, Figure]:
    """TTFT, ITL and E2E of the whole answers; a latency without a sample is left out."""
    samples = {
        "ttft_s": [_between(r.intended_ns, r.first_token_ns) for r in records],
        "itl_s": [gap for r in records for gap in _token_gaps(r)],
        "e2e_s": [_between(r.intended_ns, r.done_ns) for r in records],
    }
    figures = {}
    for name, values in samples.items():
        known = [value for value in values if value is not None]
        if known:
            figures[name] = Figure(
                n=len(known), median=statistics.median(known), low=min(known), high=max(known)
            )
    return figures


def stream_figures(records: Sequence[RequestRecord]) -> Stream:
    """How the whole answers came."""
    sources = {record.count_source for record in records if record.count_source}
    chunks = [record for record in records if record.chunk_ns]
    n_chunks = sum(len(record.chunk_ns) for record in chunks)
    n_tokens = sum(record.n_output_tokens or 0 for record in chunks)
    gaps = [later - earlier for record in chunks for earlier, later in pairwise(record.chunk_ns)]
    anomalies: Counter[str] = Counter()
    for record in records:
        anomalies.update(record.anomalies)
    return Stream(
        count_source=sources.pop() if len(sources) == 1 else ("mixed" if sources else None),
        tokens_per_chunk=n_tokens / n_chunks if n_chunks else None,
        late_read_share=_share(late for record in chunks for late in record.late_read),
        coalesced_share=_share(gap == 0 for gap in gaps),
        is_role_first=any(record.first_event_ns != record.first_token_ns for record in chunks),
        anomalies=dict(anomalies),
    )


def _token_gaps(record: RequestRecord) -> list[float | None]:
    """Gaps between tokens; none beside a late read, k tokens of a chunk share its gap."""
    late = {ns for ns, is_late in zip(record.chunk_ns, record.late_read, strict=False) if is_late}
    counts = sorted(Counter(record.token_ns).items())
    return [
        (stamp - before) / NS / n
        for (before, _), (stamp, n) in pairwise(counts)
        if not {before, stamp} & late
        for _ in range(n)
    ]


def _between(start_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None else (end_ns - start_ns) / NS


def _share(flags: Iterable[bool]) -> float | None:
    values = list(flags)
    return sum(values) / len(values) if values else None
