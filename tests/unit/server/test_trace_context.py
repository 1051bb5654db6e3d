"""`traceparent`: what is taken, and what is as if it were absent."""

import pytest

from harness.server.trace_context import TraceParent, read_traceparent, trace_headers

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
SPAN = "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("value", "flags"),
    [
        (f"00-{TRACE}-{SPAN}-01", "01"),
        (f"00-{TRACE}-{SPAN}-00", "00"),
        (f"cc-{TRACE}-{SPAN}-01", "01"),  # a later version may say more
        (f"cc-{TRACE}-{SPAN}-01-what-ever", "01"),
    ],
)
def test_a_valid_trace_is_taken(value: str, flags: str) -> None:
    """The trace id and the flags are; the parent's span is the caller's business."""
    assert read_traceparent([value]) == TraceParent(TRACE, flags)


@pytest.mark.parametrize(
    "values",
    [
        [],
        [""],
        [f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01-more"],
        [f"ff-{TRACE}-{SPAN}-01"],
        [f"00-{'0' * 32}-{SPAN}-01"],
        [f"00-{TRACE}-{'0' * 16}-01"],
        [f"00-{TRACE.upper()}-{SPAN}-01"],
        [f"00-{TRACE[:-1]}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}"],
        [f" 00-{TRACE}-{SPAN}-01"],
        [f"00-{TRACE}-{SPAN}-01\n"],
        [f"00-{TRACE[:-1]}٣-{SPAN}-01"],
        [f"cc-{TRACE}-{SPAN}-01-" + "x" * 300],
        ['00-" onload="alert(1)-x-01'],
    ],
)
def test_all_else_is_as_if_absent(values: list[str]) -> None:
    """Several, other forms, other digits, zeros, too much: no trace, and no error."""
    assert read_traceparent(values) is None


def test_the_answer_names_the_trace_and_the_span_that_served_it() -> None:
    """`traceresponse` has the form of `traceparent`; without a trace there is none."""
    expected = {"traceresponse": f"00-{TRACE}-{SPAN}-01"}
    assert trace_headers(TraceParent(TRACE, "01"), SPAN) == expected
    assert trace_headers(None, SPAN) == {}
