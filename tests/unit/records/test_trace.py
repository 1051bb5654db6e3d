"""Trace ids: hexadecimal, never zero, the same for the same key and different for every other."""

import hashlib
import re

from harness.records.trace import _non_zero, trace_id, traceparent

HEADER = re.compile(r"00-[0-9a-f]{32}-[0-9a-f]{16}-01")


def test_the_id_is_a_hash_of_the_key() -> None:
    """It is the documented BLAKE2b of four lines; any other key has another."""
    documented = hashlib.blake2b(b"run-1\n1\ns000\n7", digest_size=16).hexdigest()
    assert trace_id("run-1", 1, "s000", 7) == documented
    keys = [
        (run, session, segment, index)
        for run in ("run-1", "run-2")
        for session in (1, 2)
        for segment in ("s000", "s001")
        for index in range(-3, 3)
    ]
    assert len({trace_id(*key) for key in keys}) == len(keys)


def test_the_header_is_the_standards_and_calls_differ_in_the_span_only() -> None:
    """Version 00, 32 and 16 digits, sampled; a chain's calls share the trace and no span."""
    trace = trace_id("run-1", 1, "s000", 7)
    headers = [traceparent(trace, call) for call in range(4)]
    assert all(HEADER.fullmatch(header) for header in headers)
    assert {header.split("-")[1] for header in headers} == {trace}
    assert len({header.split("-")[2] for header in headers}) == 4


def test_an_id_of_zeros_is_no_id() -> None:
    """The standard calls zeros invalid: they become a one, everything else stays."""
    assert _non_zero(bytes(16)) == bytes(15) + b"\x01"
    assert _non_zero(b"\x00\x02") == b"\x00\x02"
