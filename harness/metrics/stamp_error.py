"""How far a client's time of the first token lies from the server's own record of it.

The truth server logs the real send time of each token on the clock that records use. Against it
stand the receive stamp of a record and the time at which our process read the same bytes: what a
client without receive stamps would have taken. Both come from one run.
"""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.plan.plan import Plan
from harness.records.request import RequestRecord

Entry = Mapping[str, Any]
"""One request in the truth server's log."""


@dataclass(frozen=True, kw_only=True)
class StampErrors:
    """Errors of the time of the first token, one per request, in seconds.

    Attributes:
        stamped_s: receive stamp minus the server's send time.
        read_s: user-space read time minus the server's send time.
        is_late: whether the record itself marks the first token as read late, together with later
            ones: its stamp is then that of the last of them, an upper bound.

    Shapes: all (n,).
    """

    stamped_s: NDArray[np.float64]
    read_s: NDArray[np.float64]
    is_late: NDArray[np.bool_]


def match_log(
    plan: Plan, records: Iterable[RequestRecord], log: Sequence[Entry]
) -> list[tuple[RequestRecord, Entry]]:
    """Each record with the server's entry for it, in the order of sending.

    Sampling seed and prompt length name a request; where several share both they are taken in order
    of time, since segments never overlap.

    Raises:
        ValueError: the log lacks a record's request.
    """
    waiting: dict[tuple[int, int], deque[Entry]] = defaultdict(deque)
    for entry in sorted(log, key=lambda entry: int(entry["arrival_ns"])):
        waiting[entry["seed"], entry["n_prompt"]].append(entry)
    seeds = {
        (segment.id, request.index): request.sampling_seed
        for segment in plan.segments
        for request in segment.requests
    }
    pairs = []
    for record in sorted(records, key=lambda record: record.sent_ns or 0):
        name = seeds[record.segment, record.index], plan.cell(record.cell).prompt_tokens
        if not waiting[name]:
            raise ValueError(f"request {record.index} of {record.segment} is not in the log")
        pairs.append((record, waiting[name].popleft()))
    return pairs


def stamp_errors(pairs: Iterable[tuple[RequestRecord, Entry]]) -> StampErrors:
    """Errors of all requests that have a first token on both sides."""
    rows = [
        (
            record.first_token_ns,
            record.first_token_read_ns,
            entry["token_ns"][0],
            record.late_read[0],
        )
        for record, entry in pairs
        if record.first_token_ns is not None and entry["token_ns"]
    ]
    stamped, read, sent, late = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    return StampErrors(
        stamped_s=(stamped - sent) / 1e9, read_s=(read - sent) / 1e9, is_late=late.astype(bool)
    )
