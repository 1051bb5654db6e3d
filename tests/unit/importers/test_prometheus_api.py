"""Prometheus is read exactly, and whatever is no Prometheus is told."""

import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.base.errors import SetupError
from harness.importers.prometheus_api import PrometheusApi
from tests.prometheus_process import needs_prometheus, prometheus

DATA = (
    b'{"status": "success", "data": {"resultType": "matrix", "result": '
    b'[{"metric": null, "values": %s}]}}'
)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that says one thing."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@needs_prometheus
def test_real_prometheus_answers_are_read(tmp_path: Path) -> None:
    """Instant, scalar and range queries of a real Prometheus; nothing is an empty list."""
    with prometheus(tmp_path, {}) as running:
        api = PrometheusApi(running.url)
        (scalar,) = api.query("scalar(vector(3))", at=1000.0)
        assert (scalar.labels, scalar.times, scalar.values) == ({}, (1000.0,), (3.0,))
        (line,) = api.query_range("vector(2) / 0", start=1000.0, end=1004.0, step_s=2.0)
        assert line.times == (1000.0, 1002.0, 1004.0)
        assert line.values == (float("inf"),) * 3
        assert api.query("nothing_of_this_name") == []
        with pytest.raises(SetupError, match=r"refused 'sum\(': .*unclosed left"):
            api.query("sum(")
        now = time.time()  # noqa: TID251  a wall clock is what Prometheus keeps
        assert api.query_range("vector(1)", start=now - 1e7, end=now, step_s=1.0)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (200, b"<html>please log in</html>", "not JSON"),
        (404, b"<html>gone</html>", "HTTP status 404"),
        (200, b"{}", "not built as one"),
        (200, b'{"status": "success", "data": 3}', "is no Prometheus"),
        (200, b"", "not JSON"),
        (200, b'{"status": "success", "data": {"resultType": "vector", "result": [1]}}', "built"),
        *((200, DATA % each, "not built as one") for each in (b"{}", b"null", b"[]", b"[[1]]")),
    ],
)
def test_what_is_no_prometheus_is_told(status: int, body: bytes, words: str) -> None:
    """Each answer that is none becomes one error with the address in it."""
    with answering(status, body) as url, pytest.raises(SetupError, match=words) as caught:
        PrometheusApi(url).query("up")
    assert url in str(caught.value)


def test_nobody_there_is_told() -> None:
    """A closed port, and an address that is none."""
    with pytest.raises(SetupError, match="no Prometheus answers at"):
        PrometheusApi("http://127.0.0.1:1").query("up")
    with pytest.raises(SetupError, match="allowed http://HOST:PORT"):
        PrometheusApi("file:///etc/passwd").query("up")
