"""Slow, plain twins of the latencies: one request at a time, from the definitions."""

import itertools
from collections.abc import Sequence

from harness.records.request import RequestRecord

NS = 1e9


def itl_s(records: Sequence[RequestRecord]) -> list[float]:
    """Gaps between the tokens of each request, those of one chunk sharing its gap."""
    return [gap for record in records for gap in _gaps(record)]


def _gaps(record: RequestRecord) -> list[float]:
    stamps = sorted(set(record.token_ns))
    late = {
        stamp for stamp, is_late in zip(record.chunk_ns, record.late_read, strict=True) if is_late
    }
    gaps = []
    for before, after in itertools.pairwise(stamps):
        opens_step = any(before <= start < after for start in record.step_start_ns[1:])
        if not ({before, after} & late or opens_step):
            n_tokens = record.token_ns.count(after)
            gaps += [(after - before) / NS / n_tokens] * n_tokens
    return gaps
