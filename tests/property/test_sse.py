"""SSE decoding does not depend on how the network cut the stream."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.load.client.sse import EventTooLarge, SseDecoder, SseEvent

FIXTURES = {
    "plain": b'data: {"a":1}\n\ndata: {"b":2}\n\ndata: [DONE]\n\n',
    "no space after the colon": b"data:{1}\n\ndata:  two spaces\n\n",
    "crlf": b"data: a\r\n\r\ndata: b\r\n\r\n",
    "cr": b"data: a\r\rdata: b\r\r",
    "mixed ends": b"data: a\r\n\ndata: b\r\r\ndata: c\n\r\ndata: d\r\n\r\n",
    "byte-order mark": b"\xef\xbb\xbfdata: a\n\ndata: \xef\xbb\xbfb\n\n",
    "mark before crlf": b"\xef\xbb\xbf\r\ndata: a\r\n\r\n",
    "pings": b": ping\n\ndata: a\n\n: ping - 2026\n\n:\n\n:\r\n\r\ndata: b\n\n",
    "empty data": b"event: ping\ndata:\n\ndata: \n\nid: 7\n\ndata: a\n\n",
    "several lines": b"data: a\ndata: b\ndata\ndata: c\n\n",
    "all fields": b"id: 1\nevent: add\nretry: 250\ndata: a\nfoo: bar\n\nid\ndata: b\n\n",
    "characters of two to four bytes": "data: é中🌍\n\ndata: \u2028\x85\x0b\n\n".encode(),
    "no final blank line": b"data: a\n\ndata: b\n",
    "no final newline": b"data: a\n\ndata: b",
    "cr at the very end": b"data: a\r\n\r\ndata: b\r",
    "invalid utf-8": b"data: \xff\xfe\n\n",
    "null in id": b"id: a\0b\ndata: x\n\nid: ok\ndata: y\n\n",
    "nothing": b"",
    "only comments": b": a\n: b\n\n",
}
SCRAPS = st.sampled_from(
    [b"data: x", b"data:y", b"data", b"\r", b"\n", b"\r\n", b"\n\n", b": c", b"id: 1", b"event: e",
     b"\xef\xbb\xbf", b"\xe4\xb8\xad", b"\xe4", b"retry: 5", b":", b" "]
)  # fmt: skip


def decode(pieces: list[bytes]) -> list[SseEvent]:
    """Events of a stream that came in these pieces."""
    decoder = SseDecoder()
    events = [event for i, piece in enumerate(pieces) for event in decoder.feed(piece, i)]
    return events + decoder.finish()


def contents(events: list[SseEvent]) -> list[tuple[object, ...]]:
    return [(e.data, e.event, e.id, e.is_unterminated) for e in events]


def feed_bytewise(decoder: SseDecoder, stream: bytes) -> None:
    for i in range(len(stream)):
        decoder.feed(stream[i : i + 1], i)


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(places), len(stream)]
    return [stream[a:b] for a, b in pairwise(edges)]


@pytest.mark.parametrize("stream", FIXTURES.values(), ids=FIXTURES.keys())
def test_every_single_cut_gives_the_same_events(stream: bytes) -> None:
    """One cut at any byte, or one byte per piece, changes no event."""
    whole = contents(decode([stream]))
    for place in range(len(stream) + 1):
        assert contents(decode(cut(stream, [place]))) == whole
    single_bytes = [stream[i : i + 1] for i in range(len(stream))]
    assert contents(decode(single_bytes)) == whole


@given(stream=st.lists(SCRAPS, max_size=24).map(b"".join), data=st.data())
def test_any_cutting_of_any_stream_gives_the_same_events(
    stream: bytes, data: st.DataObject
) -> None:
    """Any number of cuts at any places of any stream changes no event."""
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert contents(decode(cut(stream, places))) == contents(decode([stream]))


@given(stream=st.lists(SCRAPS, max_size=24).map(b"".join))
def test_an_event_carries_the_piece_that_completed_it(stream: bytes) -> None:
    """The events of a prefix are exactly those whose piece lies inside that prefix."""
    single_bytes = [stream[i : i + 1] for i in range(len(stream))]
    events = [event for event in decode(single_bytes) if not event.is_unterminated]
    for n in range(len(stream) + 1):
        decoder = SseDecoder()
        so_far = decoder.feed(stream[:n], 0)
        assert len(so_far) == sum(event.chunk < n for event in events)


@given(stream=st.lists(SCRAPS, max_size=24).map(b"".join), data=st.data())
def test_the_cap_is_met_or_passed_whatever_the_cutting(stream: bytes, data: st.DataObject) -> None:
    """Whether an event is too large depends on the stream, not on how it was cut."""
    places = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    assert is_too_large(cut(stream, places)) == is_too_large([stream])


def is_too_large(pieces: list[bytes]) -> bool:
    decoder = SseDecoder(max_event_bytes=12)
    try:
        for i, piece in enumerate(pieces):
            decoder.feed(piece, i)
        decoder.finish()
    except EventTooLarge:
        return True
    return False


@given(stream=st.binary(max_size=200))
def test_no_bytes_break_the_decoder(stream: bytes) -> None:
    """Whatever bytes come, decoding ends without an exception, and cutting changes nothing."""
    single_bytes = [stream[i : i + 1] for i in range(len(stream))]
    assert contents(decode(single_bytes)) == contents(decode([stream]))


EXPECTED = {
    "plain": [b'{"a":1}', b'{"b":2}', b"[DONE]"],
    "no space after the colon": [b"{1}", b" two spaces"],
    "crlf": [b"a", b"b"],
    "cr": [b"a", b"b"],
    "mixed ends": [b"a", b"b", b"c", b"d"],
    "byte-order mark": [b"a", b"\xef\xbb\xbfb"],
    "mark before crlf": [b"a"],
    "pings": [b"a", b"b"],
    "empty data": [b"a"],
    "several lines": [b"a\nb\n\nc"],
    "characters of two to four bytes": ["é中🌍".encode(), "\u2028\x85\x0b".encode()],
    "no final blank line": [b"a", b"b"],
    "no final newline": [b"a", b"b"],
    "cr at the very end": [b"a", b"b"],
    "invalid utf-8": [b"\xff\xfe"],
    "nothing": [],
    "only comments": [],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_each_fixture_decodes_as_the_standard_says(name: str) -> None:
    """Data of every event, worked out by hand from the WHATWG rules."""
    assert [event.data for event in decode([FIXTURES[name]])] == EXPECTED[name]


def test_fields_beside_data_are_kept() -> None:
    """Event type, id and retry are read; an id stays in force until another comes."""
    decoder = SseDecoder()
    events = decoder.feed(FIXTURES["all fields"], 0)
    assert [(e.event, e.id) for e in events] == [("add", "1"), ("", "")]
    assert decoder.retry_ms == 250


def test_an_id_with_a_null_is_ignored() -> None:
    """The id keeps its former value when the new one holds U+0000."""
    assert [event.id for event in decode([FIXTURES["null in id"]])] == ["", "ok"]


@pytest.mark.parametrize("size", [65_536, 131_071, 131_072, 131_073, 1_048_576])
def test_large_events_pass(size: int) -> None:
    """No line limit below the stated cap: 64 KiB, 128 KiB and its neighbours, 1 MiB."""
    stream = b"data: " + b"x" * size + b"\n\n"
    pieces = [stream[i : i + 65_536] for i in range(0, len(stream), 65_536)]
    assert [len(event.data) for event in decode(pieces)] == [size]


@pytest.mark.parametrize(
    "stream", [b"data: " + b"x" * 200, b"data: xxxxxxxx\n" * 20, b"x" * 200]
)  # fmt: skip
def test_an_event_past_the_cap_is_refused_with_size_and_limit(stream: bytes) -> None:
    """One long line, many lines, no field at all: the cap holds, the error names both sizes."""
    with pytest.raises(EventTooLarge) as caught:
        feed_bytewise(SseDecoder(max_event_bytes=100), stream)
    assert caught.value.limit == 100
    assert 100 < caught.value.size <= 120


def test_an_event_at_the_cap_passes_whatever_its_neighbours_weigh() -> None:
    """The cap is per event: a hundred events of 90 bytes pass a cap of 100."""
    stream = (b"data: " + b"x" * 80 + b"\n\n") * 100
    decoder = SseDecoder(max_event_bytes=100)
    assert len(decoder.feed(stream, 0)) == 100


def test_the_open_event_at_the_end_is_reported_and_flagged() -> None:
    """A measuring client must not lose the last event of a stream cut before its blank line."""
    events = decode([FIXTURES["no final newline"]])
    assert [event.is_unterminated for event in events] == [False, True]


def test_comments_and_empty_events_are_counted() -> None:
    """Keep-alives are no events, and they are counted."""
    decoder = SseDecoder()
    decoder.feed(FIXTURES["pings"] + FIXTURES["empty data"], 0)
    assert decoder.n_comments == 4
    assert decoder.n_empty == 2
