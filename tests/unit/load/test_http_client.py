"""The HTTP client against servers that behave in every way seen in the field."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import gevent
import pytest

from harness.base.errors import SetupError
from harness.load.client.deadlines import Timeouts
from harness.load.client.endpoint import resolve
from harness.load.client.exchange import Exchange, HttpRequest
from harness.load.client.http import HttpClient
from harness.load.client.keep_alive import KeepAlive
from harness.load.client.rx_timestamp import RxTimestamps
from harness.records.request import Outcome
from tests.unit.load.scripted_server import OK, ScriptedServer, Step, chunked, serving, sized

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LAST = b"0\r\n\r\n"
STAMPS = RxTimestamps.user_space()
REQUEST = HttpRequest(path="/x", body=b"{}")
FAST = Timeouts(connect_s=2.0, idle_s=5.0, total_s=10.0)


@contextmanager
def client_of(
    server: ScriptedServer, timeouts: Timeouts = FAST, keep_alive: KeepAlive | None = None
) -> Iterator[HttpClient]:
    client = HttpClient(resolve(server.url), timeouts, STAMPS, keep_alive)
    try:
        yield client
    finally:
        client.close()


def run(*steps: Step, timeouts: Timeouts = FAST) -> Exchange:
    with serving(steps) as server, client_of(server, timeouts) as client:
        return client.exchange(REQUEST)


GOOD = {
    "content-length": [sized(b"hello")],
    "chunked": [CHUNKED + chunked(b"he", b"llo") + LAST],
    "closed at the end": [OK + b"\r\nhello", "close"],
    "http/1.0 closed at the end": [b"HTTP/1.0 200 OK\r\n\r\nhello", "close"],
    "head cut in pieces": [
        b"HT", 0.01, b"TP/1.1 200 O", 0.01, b"K\r\nContent-Le", 0.01, b"ngth: 5\r\n\r", 0.01,
        b"\nhel", 0.01, b"lo",
    ],
    "chunk header cut": [
        CHUNKED + b"5", 0.01, b"\r\nhel", 0.01, b"lo\r", 0.01, b"\n0\r\n", 0.01, b"\r\n",
    ],
    "chunk extensions and trailers": [CHUNKED + b"5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n"],
    "100 continue first": [b"HTTP/1.1 100 Continue\r\n\r\n", 0.01, sized(b"hello")],
    "two interim heads in one read": [
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" + sized(b"hello")
    ],
    "slow head": [0.2, sized(b"hello")],
    "header names in capitals": [b"HTTP/1.1 200 OK\r\nCONTENT-LENGTH: 5\r\n\r\nhello"],
}  # fmt: skip


@pytest.mark.parametrize("steps", GOOD.values(), ids=GOOD.keys())
def test_every_framing_gives_the_same_body(steps: list[Step]) -> None:
    """Length, chunks, closing, interim heads and any cutting: one complete answer `hello`."""
    exchange = run("read", *steps)
    assert (exchange.failure, exchange.status, exchange.body) == (None, 200, b"hello")
    stamps = (
        exchange.started_ns, exchange.sent_ns, exchange.first_byte_ns, exchange.headers_ns,
        exchange.done_ns, exchange.ended_ns,
    )  # fmt: skip
    assert None not in stamps
    assert list(stamps) == sorted(stamps, key=lambda stamp: stamp or 0)


BAD = {
    "reset before the head": (["reset"], Outcome.RESET),
    "closed before the head": (["close"], Outcome.RESET),
    "closed inside the head": ([b"HTTP/1.1 200 OK\r\nConte", "close"], Outcome.RESET),
    "closed inside a sized body": (
        [OK + b"Content-Length: 9\r\n\r\nhello", "close"], Outcome.TRUNCATED,
    ),
    "closed inside chunks": ([CHUNKED + chunked(b"hello"), "close"], Outcome.TRUNCATED),
    "reset inside the body": ([CHUNKED + chunked(b"hello"), 0.05, "reset"], Outcome.RESET),
    "garbage": ([b"SSH-2.0-OpenSSH_9.2\r\n", "close"], Outcome.PROTOCOL_ERROR),
    "garbage between chunks": ([CHUNKED + chunked(b"hello") + b"zz\r\n"], Outcome.PROTOCOL_ERROR),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "outcome"), BAD.values(), ids=BAD.keys())
def test_every_broken_answer_has_its_outcome(steps: list[Step], outcome: Outcome) -> None:
    """A broken transport is an outcome with a bounded reason, never an exception."""
    exchange = run("read", *steps)
    assert exchange.failure is outcome
    assert exchange.error
    assert len(exchange.error) <= 500


def test_what_came_before_the_break_is_kept() -> None:
    """Partial bodies keep their pieces and stamps."""
    exchange = run("read", CHUNKED + chunked(b"hel", b"lo"), 0.05, "reset")
    assert [piece.data for piece in exchange.chunks] == [b"hel", b"lo"]


def test_silence_ends_in_idle_timeout() -> None:
    """No byte for idle_s after the last one."""
    exchange = run("read", CHUNKED + chunked(b"a"), "hold", timeouts=Timeouts(idle_s=0.2))
    assert exchange.failure is Outcome.IDLE_TIMEOUT
    assert exchange.done_ns is not None
    assert exchange.ended_ns - exchange.done_ns > 190_000_000


def test_a_slow_drip_ends_in_total_timeout() -> None:
    """Bytes keep the idle timer off, the total timer ends the exchange."""
    drip: Sequence[Step] = [CHUNKED, *[step for _ in range(40) for step in (chunked(b"a"), 0.02)]]
    exchange = run("read", *drip, timeouts=Timeouts(idle_s=0.2, total_s=0.4))
    assert exchange.failure is Outcome.TOTAL_TIMEOUT
    assert len(exchange.chunks) > 3


def test_no_server_is_a_connect_error() -> None:
    """A refused connection is recorded, with the address that refused."""
    with serving(["close"]) as server:
        url = server.url
    client = HttpClient(resolve(url), FAST, STAMPS)
    exchange = client.exchange(REQUEST)
    assert exchange.failure is Outcome.CONNECT_ERROR
    assert url in (exchange.error or "")
    assert exchange.sent_ns is None


def test_a_connection_is_kept_and_used_again() -> None:
    """Three requests, one connection; all but the first say so."""
    answer = sized(b"hello")
    script: list[Step] = ["read", answer, "read", answer, "read", answer, "hold"]
    with serving(script) as server, client_of(server) as client:
        exchanges = [client.exchange(REQUEST) for _ in range(3)]
        assert server.n_connections == 1
    assert [exchange.is_reused for exchange in exchanges] == [False, True, True]


def test_a_connection_closed_between_requests_is_replaced_before_sending() -> None:
    """The server closes an idle connection: the next request goes out on a new one, and is ok."""
    script: list[Step] = ["read", sized(b"hello"), "close"]
    with serving(script) as server, client_of(server) as client:
        assert client.exchange(REQUEST).failure is None
        while not server.n_played:
            gevent.sleep(0.005)
        gevent.sleep(0.05)
        second = client.exchange(REQUEST)
        assert (second.failure, second.is_reused, server.n_connections) == (None, False, 2)


def test_a_close_unseen_by_the_loop_is_still_detected_before_sending() -> None:
    """Even when the event loop had no turn since the server closed."""
    script: list[Step] = ["read", sized(b"hello"), "close"]
    with serving(script) as server, client_of(server) as client:
        assert client.exchange(REQUEST).failure is None
        while not server.n_played:
            time.sleep(0.005)  # blocks the loop on purpose
        time.sleep(0.05)
        assert client.exchange(REQUEST).failure is None


def test_a_reset_on_a_reused_connection_is_recorded_and_not_retried() -> None:
    """A request that may have been processed is never sent twice."""
    script: list[Step] = ["read", sized(b"hello"), "read", "reset"]
    with serving(script) as server, client_of(server) as client:
        client.exchange(REQUEST)
        second = client.exchange(REQUEST)
        assert (second.failure, second.is_reused) == (Outcome.RESET, True)
        assert (server.n_connections, len(server.requests)) == (1, 2)
        assert client.exchange(REQUEST).failure is None


def test_a_server_that_closes_unannounced_is_never_sent_into_a_closing_connection() -> None:
    """Until connections are seen to last each request has a new one: no reset, however late."""
    script: list[Step] = ["read", sized(b"hello"), 0.02, "close"]
    keep_alive = KeepAlive()
    exchanges: list[Exchange] = []
    with serving(script) as server, client_of(server, keep_alive=keep_alive) as client:
        while keep_alive.is_kept is None or len(exchanges) < 20:
            exchanges.append(client.exchange(REQUEST))
            gevent.sleep(0.001)
    assert keep_alive.is_kept is False
    assert {(exchange.failure, exchange.is_reused) for exchange in exchanges} == {(None, False)}


def test_a_connection_that_lasts_proves_that_others_are_kept() -> None:
    """One is watched through; then the next one is used again and again."""
    answers: list[Step] = ["read", sized(b"hello")]
    keep_alive = KeepAlive()
    scripts = [*answers, "hold"], [*answers * 3, "hold"]
    with serving(*scripts) as server, client_of(server, keep_alive=keep_alive) as client:
        client.exchange(REQUEST)
        while keep_alive.is_kept is None:
            gevent.sleep(0.01)
        exchanges = [client.exchange(REQUEST) for _ in range(3)]
    assert keep_alive.is_kept
    assert [exchange.is_reused for exchange in exchanges] == [False, True, True]
    assert server.n_connections == 2


def test_connection_close_is_honoured() -> None:
    """After `Connection: close` the next request opens a new connection."""
    answer = sized(b"hello", OK + b"Connection: close\r\n")
    with serving(["read", answer, "read", answer]) as server, client_of(server) as client:
        assert [client.exchange(REQUEST).is_reused for _ in range(2)] == [False, False]
        assert server.n_connections == 2


def test_bytes_after_the_answer_end_the_connection() -> None:
    """Unasked bytes spoil the connection, not the answer, and never the next one."""
    script: list[Step] = ["read", sized(b"hello") + b"HTTP/1.1 200 OK\r\n", "hold"]
    with serving(script, ["read", sized(b"second")]) as server, client_of(server) as client:
        assert client.exchange(REQUEST).body == b"hello"
        assert client.exchange(REQUEST).body == b"second"


def test_an_answer_sent_before_the_request_was_read_is_not_lost() -> None:
    """A server that answers 413 and closes while a large body is still on its way."""
    answer = sized(b"too large", b"HTTP/1.1 413 Payload Too Large\r\n")
    large = HttpRequest(path="/x", body=b"x" * 20_000_000)
    with serving([answer, 0.2, "close"]) as server, client_of(server) as client:
        exchange = client.exchange(large)
    assert (exchange.status, exchange.body) == (413, b"too large")


def test_a_large_request_arrives_whole() -> None:
    """A body past the socket's buffers is sent in turns, and sent_ns comes after the last byte."""
    body = bytes(range(256)) * 40_000
    with serving(["read", sized(b"ok"), "hold"]) as server, client_of(server) as client:
        exchange = client.exchange(HttpRequest(path="/x", body=body))
        assert exchange.failure is None
        assert server.requests[0].endswith(body)


def test_the_request_asks_for_no_compression() -> None:
    """`Accept-Encoding: identity`, one Host and one Content-Length go out."""
    with serving(["read", sized(b"ok")]) as server, client_of(server) as client:
        client.exchange(HttpRequest(path="/v1/x", body=b"{}", headers=(("X-A", "b"),)))
        head = server.requests[0].split(b"\r\n\r\n")[0].decode().split("\r\n")
    assert head == [
        "POST /v1/x HTTP/1.1", f"Host: 127.0.0.1:{server.port}", "Accept-Encoding: identity",
        "Content-Length: 2", "X-A: b",
    ]  # fmt: skip


def test_pieces_of_one_read_share_a_stamp_and_are_marked_late() -> None:
    """Three chunks in one segment: the second and third are late reads; a lone one is not."""
    exchange = run("read", CHUNKED, 0.05, chunked(b"a", b"b", b"c"), 0.05, chunked(b"d") + LAST)
    assert [piece.data for piece in exchange.chunks] == [b"a", b"b", b"c", b"d"]
    assert exchange.late_read == (False, True, True, False)
    assert len({piece.rx_ns for piece in exchange.chunks}) == 2


def test_a_read_that_left_data_behind_marks_the_next_one() -> None:
    """More than one buffer at once: all reads after the first full one are late."""
    exchange = run("read", OK + b"Content-Length: 200000\r\n\r\n" + b"x" * 200_000)
    assert len(exchange.body) == 200_000
    assert any(exchange.late_read)


def test_cancelling_keeps_what_came() -> None:
    """A cancelled request is an exchange with outcome `cancelled` and its pieces."""
    script: list[Step] = ["read", CHUNKED + chunked(b"a"), "hold"]
    with serving(script) as server, client_of(server) as client:
        exchanging = gevent.spawn(client.exchange, REQUEST)
        while not server.sent_ns:
            gevent.sleep(0.005)
        gevent.sleep(0.2)
        client.cancel()
        exchange = exchanging.get()
    assert (exchange.failure, exchange.body) == (Outcome.CANCELLED, b"a")


def test_a_killed_greenlet_leaves_no_connection_behind() -> None:
    """Killing the user in the middle closes its socket; the client can be used again."""
    script: list[Step] = ["read", CHUNKED + chunked(b"a"), "hold"]
    with serving(script, ["read", sized(b"ok")]) as server, client_of(server) as client:
        greenlet = gevent.spawn(client.exchange, REQUEST)
        gevent.sleep(0.1)
        greenlet.kill()
        assert client.exchange(REQUEST).body == b"ok"


def test_a_stream_that_ended_without_closing_is_cut_short() -> None:
    """When the silent answer says that it has ended, the exchange is complete after a second."""
    script: list[Step] = ["read", CHUNKED + chunked(b"end"), "hold"]
    asked = HttpRequest(path="/x", body=b"{}", is_finished=lambda body: b"".join(body) == b"end")
    with serving(script) as server, client_of(server) as client:
        exchange = client.exchange(asked)
    assert (exchange.failure, exchange.is_cut_short) == (None, True)
    assert exchange.done_ns is not None
    assert 0.9 < (exchange.ended_ns - exchange.done_ns) / 1e9 < 20  # `hold` would end it after 30


def test_two_clients_share_the_loop() -> None:
    """A slow answer does not hold up a fast one."""
    slow: list[Step] = ["read", 1.0, sized(b"slow")]
    fast: list[Step] = ["read", sized(b"fast")]
    with serving(slow, fast) as server, client_of(server) as one, client_of(server) as two:
        first = gevent.spawn(one.exchange, REQUEST)
        gevent.sleep(0.05)
        second = two.exchange(REQUEST)
        assert second.body == b"fast"
        assert not first.ready()
        assert first.get().body == b"slow"


def test_ipv6_loopback_works() -> None:
    """An address in brackets is IPv6."""
    assert resolve("http://[::1]:8000").address[:2] == ("::1", 8000)


def test_a_trailing_v1_is_no_part_of_the_base() -> None:
    """Both spellings that users know give the same paths."""
    assert resolve("http://127.0.0.1:1/v1").base_path == ""
    assert resolve("http://127.0.0.1:1/proxy/v1/").base_path == "/proxy"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("https://127.0.0.1:8000", "TLS"),
        ("http://me:secret@127.0.0.1:8000", "carries credentials"),
        ("http://127.0.0.1:8000/v1?key=secret", "api_key_env"),
        ("ftp://127.0.0.1", "http://host:port"),
        ("http://[::1", "http://host:port"),
        ("http://127.0.0.1:99999", "65535"),
        ("http://nosuchhost.invalid:80", "nosuchhost.invalid"),
    ],
)
def test_a_url_that_cannot_be_used_says_why(url: str, words: str) -> None:
    """The message names what came and what is allowed."""
    with pytest.raises(SetupError, match=words):
        resolve(url)
