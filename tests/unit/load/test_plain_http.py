"""Small questions to a target that does not play by the rules."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.base.errors import SetupError
from harness.load.client import plain_http
from harness.load.client.plain_http import PlainHttp
from tests.unit.load.scripted_server import Step, serving, sized

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"


@contextmanager
def dripping(first: bytes, drop: bytes, gap_s: float) -> Iterator[str]:
    """A server that sends `first`, then `drop` for ever."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(65_536)
            try:
                peer.sendall(first)
                while not stop.wait(gap_s):
                    peer.sendall(drop)
            except OSError:
                return

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        thread.join(10)
        listener.close()


@pytest.mark.parametrize(
    ("first", "drop"),
    [
        (b"", b""),
        (b"HTTP/1.1 200 OK\r\n", b"x"),
        (HEAD + b"\r\n", b"x"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n"),
        (HEAD + b"content-length: 1000000\r\n\r\n", b"x"),
    ],
    ids=["silent", "endless head", "endless body", "endless chunks", "slow body"],
)
def test_an_answer_has_one_time_limit_as_a_whole(first: bytes, drop: bytes) -> None:
    """Bytes that keep coming do not keep us: the limit covers the answer, not each read."""
    with dripping(first, drop, 0.05) as url:
        http = PlainHttp(url, timeout_s=0.5)
        began = time.monotonic()
        with pytest.raises(
            SetupError, match=r"/v1/models: no answer: (not whole within 0.5 s|timed)"
        ):
            http.get("/v1/models")
        assert time.monotonic() - began < 20 * 0.5  # the answer itself never ends
        http.close()


def test_an_answer_has_a_size_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless body at full speed ends at the cap, not in memory."""
    monkeypatch.setattr(plain_http, "MAX_BYTES", 100_000)
    with dripping(HEAD + b"\r\n", b"x" * 50_000, 0.001) as url:
        http = PlainHttp(url, timeout_s=30)
        with pytest.raises(SetupError, match="more than 100,000 bytes"):
            http.get("/v1/models")
        http.close()


def test_a_connection_that_the_server_closed_meanwhile_is_replaced() -> None:
    """An idle limit of the server between two questions is no failure of the target."""
    script: list[Step] = ["read", sized(b"{}"), "close"]
    with serving(script) as server:
        http = PlainHttp(server.url)
        assert http.get("/a").json() == {}
        time.sleep(0.05)
        assert http.post("/b", {}).json() == {}
        http.close()
        assert server.n_connections == 2


def test_a_port_where_nobody_listens_says_what_to_do() -> None:
    """Refused: the address, the reason, and the two things that may be wrong."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(SetupError, match=rf"{url}/v1/models: .*refused; start the server"):
        PlainHttp(url, timeout_s=5).get("/v1/models")
