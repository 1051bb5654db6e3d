"""`traceparent`: the caller's trace, so that its spans, our rows and our exemplars meet.

Only what has exactly the standard's form is taken; all else is as if it were absent. It names a
request for people and tools and decides nothing.

Source: W3C Trace Context (traceparent); level 2, draft (traceresponse).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

HEADER: Final = "traceparent"
ANSWER_HEADER: Final = "traceresponse"
SPAN_ID_LENGTH: Final = 16
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.{0,256})?")


class TraceParent(NamedTuple):
    """Which trace a request belongs to, and whether it is recorded (`flags`)."""

    trace_id: str
    flags: str


def read_traceparent(values: Sequence[str]) -> TraceParent | None:
    """Read the header fields of a request; None where there is not exactly one valid one."""
    match = _FORM.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        return None
    version, trace_id, parent_id, flags, more = match.groups()
    is_known = version != "ff" and not (version == "00" and more)
    if not is_known or not int(trace_id, 16) or not int(parent_id, 16):
        return None
    return TraceParent(trace_id, flags)


def trace_headers(trace: TraceParent | None, span_id: str) -> dict[str, str]:
    """Give the answer's header: the trace, and the span that served this request in it."""
    if trace is None:
        return {}
    return {ANSWER_HEADER: f"00-{trace.trace_id}-{span_id}-{trace.flags}"}
