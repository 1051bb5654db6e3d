"""Malformed requests against a real server: no 5xx, no hang, no crash, no trace in its log.

`make test` sends a seeded few hundred; `make fuzz` sends 20,000 (TAILBREAK_FUZZ gives the number).
Three kinds: JSON bodies with wrong fields, raw bytes with broken framing, and what Schemathesis
makes of the server's own OpenAPI description, with the answers checked against it.
"""

import contextlib
import http.client
import json
import os
import socket
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi import checks as openapi_checks

from harness.server.foreign_fields import NEUTRAL_VALUES
from harness.server.options import ServerOptions
from harness.server.process import RunningServer, start_server
from harness.server.schemas import (
    Body,
    ChatBody,
    CompletionBody,
    TokenizeBody,
)
from tests.e2e.plain_client import HALF_REQUESTS, Client, eventually, everything_logged, memory_of

pytestmark = [
    pytest.mark.e2e,
    # Long values are the point here.
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning"),
]

N_REQUESTS = int(os.environ.get("TAILBREAK_FUZZ", "400"))
HANG_S = 30
"""Far beyond any answer of this server, whose longest context is 32 tokens."""
STATUSES = {200, 400, 404, 405, 408, 413, 431}


def seeded(share: float) -> settings:
    """A fixed number of fixed examples; a failure is shown as it was found."""
    return settings(
        max_examples=max(1, round(N_REQUESTS * share)),
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server with short contexts; afterwards it must be whole: alive, empty, and silent."""
    options = ServerOptions(port=0, max_model_len=32, client_timeout=3)
    with start_server(options) as running:
        client = Client(running.url)
        held = client.value("mc_accel_kv_held_tokens")
        memory = memory_of(running.pid)
        yield running
        assert running.process.poll() is None
        assert client.get("/healthz").json["status"] == "ok"
        eventually(lambda: client.value("mc_accel_running_sequences") == 0, HANG_S)
        assert client.value("mc_accel_kv_held_tokens") == held
        assert client.value("mc_accel_refused_total", status="500") == 0
        good = client.post("/v1/completions", {"prompt": "The sea", "max_tokens": 3})
        assert good.status == 200
        assert memory_of(running.pid) - memory < 64 << 20
        assert "Traceback" not in everything_logged(running)


@pytest.fixture(scope="module")
def seen() -> Counter[int]:
    """Answers by status, to refuse a vacuous run."""
    return Counter()


def require_refusal(status: int, body: bytes) -> None:
    """An answer that is no 200 has OpenAI's error shape and says something."""
    assert status in STATUSES, (status, body)
    if status != 200:
        error = json.loads(body)["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert error["message"]
        assert len(body) < 8192


# --- JSON bodies -------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-3, 40),
    st.sampled_from([2**31, 2**63 - 1, 2**63, -(2**63) - 1, 10**40, 10**400]),
    st.floats(),
    st.sampled_from([0.0, -0.0, 1e308, 5e-324]),
)
TEXTS = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["", "\0", "\ud800", "a\udfffb", "\u202e", "<|eos|>", "x" * 5000, "\r\n\r\n"]),
)
LEAVES = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JUNK = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=8,
)
DEEP = st.integers(2, 3000).map(lambda depth: "[" * depth + "]" * depth)
MESSAGES = st.lists(
    st.one_of(
        JUNK,
        st.fixed_dictionaries(
            {"role": st.one_of(JUNK, st.sampled_from(["user", "assistant", "developer"]))},
            optional={
                "content": st.one_of(
                    JUNK,
                    st.lists(
                        st.fixed_dictionaries({"type": st.just("text"), "text": JUNK}), max_size=3
                    ),
                ),
                "name": JUNK,
            },
        ),
    ),
    max_size=3,
)
ROUTES: dict[str, tuple[dict[str, Any], type[Body]]] = {
    "/v1/chat/completions": ({"messages": [{"role": "user", "content": "Hi"}]}, ChatBody),
    "/v1/completions": ({"prompt": "Hi"}, CompletionBody),
    "/v1/infer": ({"prompt": "Hi"}, CompletionBody),
    "/tokenize": ({"prompt": "Hi"}, TokenizeBody),
    "/detokenize": ({"tokens": [5]}, TokenizeBody),
}


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, list[bytes], str]:
    """A route, four bodies that are mostly wrong somewhere, and a value of `X-MC-Accel`."""
    path = draw(st.sampled_from(sorted(ROUTES)))
    good, schema = ROUTES[path]
    base = {**good, "max_tokens": 2} if path.startswith("/v1") else good
    names = st.one_of(
        st.sampled_from(sorted({*schema.model_fields, *NEUTRAL_VALUES, "prompt", "tokens"})), TEXTS
    )
    wrong = draw(st.dictionaries(names, JUNK, max_size=3))
    if draw(st.integers(0, 3)) == 0:
        wrong["messages"] = draw(MESSAGES)
    raw = json.dumps({**base, **wrong} if draw(st.integers(0, 9)) else draw(JUNK)).encode()
    place = draw(st.integers(0, len(raw)))
    variants = [
        raw[:place],
        raw[:place] + draw(st.binary(min_size=1, max_size=4)) + raw[place:],
        raw.decode().encode("utf-16"),
        raw[:-1] + b', "stop": ' + draw(DEEP).encode() + b"}",
        b'{"prompt": "a", "prompt": 5, ' + raw[1:],
        raw.replace(b"2", draw(st.sampled_from([b"1e999", b"-0", b"2.0", b"01", b"9" * 5000]))),
        raw + raw,
    ]
    sent = [raw, *draw(st.permutations(variants))[:3]]
    accel = draw(st.sampled_from(["false"] * 4 + ["true", "paged_kv", "warp", "\xe9,true", ","]))
    return path, sent, accel


def test_json_bodies(server: RunningServer, seen: Counter[int]) -> None:
    """Whatever a JSON body says, it is answered, and every refusal has words."""
    client = Client(server.url)
    connection = http.client.HTTPConnection(client.host, client.port, timeout=HANG_S)

    @seeded(0.7 / 4)
    @given(bodies())
    def send(request: tuple[str, list[bytes], str]) -> None:
        path, sent, accel = request
        for raw in sent:
            connection.request("POST", path, raw, {"X-MC-Accel": accel})
            reply = connection.getresponse()
            body = reply.read()
            require_refusal(reply.status, body)
            seen[reply.status] += 1

    with contextlib.closing(connection):
        send()
    assert seen[400] > 0.4 * N_REQUESTS * 0.7
    assert seen[200] > 0


# --- raw bytes ---------------------------------------------------------------------------------

LINES = st.sampled_from(
    [
        b"POST /v1/completions HTTP/1.1",
        b"POST /v1/completions HTTP/1.0",
        b"POST /v1/completions HTTP/9.9",
        b"POST /v1/completions",
        b"GET /metrics HTTP/1.1",
        b"GET //%00/%ff%fe/../?%zz HTTP/1.1",
        b"GET http://[::1/ HTTP/1.1",
        b"CONNECT a:1 HTTP/1.1",
        b"OPTIONS * HTTP/1.1",
        b"HEAD /healthz HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"post /v1/completions HTTP/1.1",
        b"POST /v1/\xc3\xa9\xff HTTP/1.1",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"",
    ]
)
FIELDS = st.lists(
    st.one_of(
        st.sampled_from(
            [
                b"Host: x",
                b"Host: x\r\nHost: y",
                b"Content-Length: 5",
                b"Content-Length: -1",
                b"Content-Length: 99999999999999999999",
                b"Content-Length: 5\r\nContent-Length: 6",
                b"Content-Length: 0x10",
                b"Transfer-Encoding: chunked",
                b"Transfer-Encoding: chunked\r\nContent-Length: 4",
                b"Transfer-Encoding: gzip",
                b"Content-Encoding: gzip",
                b"Expect: 100-continue",
                b"Expect: 200-maybe",
                b"Connection: close",
                b"Connection: upgrade\r\nUpgrade: websocket",
                b"Connection: upgrade\r\nUpgrade: h2c",
                b"X-MC-Accel: \xff\xfe",
                b"X-MC-Accel: " + b"a," * 3000,
                b"Authorization: " + b"\xff" * 50,
                b" folded: line",
                b"no colon",
                b"Null: \0",
                b"Long: " + b"x" * 70_000,
                b": empty",
            ]
        ),
        st.binary(max_size=20),
    ),
    max_size=5,
)
PAYLOADS = st.one_of(
    st.sampled_from(
        [
            b"",
            b'{"prompt": "Hi", "max_tokens": 1}',
            b"5\r\nhello\r\n0\r\n\r\n",
            b"zz\r\nhello\r\n",
            b"ffffffffffffffff\r\nx",
            b"5;ext=" + b"e" * 5000 + b"\r\nhello\r\n0\r\nTrailer: x\r\n\r\n",
            b"0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
            b"1\r\n{\r\n" * 500,
        ]
    ),
    st.binary(max_size=60),
)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """Bytes that look like HTTP, more or less."""
    if draw(st.integers(0, 9)) == 0:
        return draw(st.binary(min_size=1, max_size=200))
    end = draw(st.sampled_from([b"\r\n", b"\r\n", b"\r\n", b"\n", b"\r"]))
    return end.join([draw(LINES), *draw(FIELDS), b"", b""]) + draw(PAYLOADS)


def read_all(to: socket.socket) -> bytes:
    """What the server says until it closes; a connection it resets has said its part."""
    said = b""
    with contextlib.suppress(ConnectionError):
        while part := to.recv(65536):
            said += part
    return said


def test_raw_bytes(server: RunningServer, seen: Counter[int]) -> None:
    """Whatever the bytes are, the connection ends, with an answer below 500 or without one."""
    client = Client(server.url)

    @seeded(0.25)
    @given(messages())
    def send(message: bytes) -> None:
        with socket.create_connection((client.host, client.port), timeout=HANG_S) as to:
            with contextlib.suppress(OSError):  # it may have closed or reset before the end
                to.sendall(message)
                to.shutdown(socket.SHUT_WR)
            said = read_all(to)
        if said:
            line = said.split(b"\r\n", 1)[0]
            assert line.startswith(b"HTTP/1.1 "), said[:80]
            assert int(line[9:12]) in STATUSES | {100}, said[:200]
            seen[int(line[9:12])] += 1
        else:
            seen[0] += 1

    send()
    assert seen[400] > 0


def test_half_requests_end_in_time(server: RunningServer) -> None:
    """Heads and bodies that stop coming are answered 408 and closed; their memory is given up."""
    client = Client(server.url)
    with contextlib.ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection((client.host, client.port), HANG_S))
            for _ in HALF_REQUESTS * 10
        ]
        for to, start in zip(sockets, HALF_REQUESTS * 10, strict=True):
            to.sendall(start)
        silent = stack.enter_context(socket.create_connection((client.host, client.port), HANG_S))
        for to in sockets:
            said = read_all(to)
            assert said.startswith(b"HTTP/1.1 408 "), said
            require_refusal(408, said.split(b"\r\n\r\n", 1)[1])
        assert read_all(silent) == b""


# --- Schemathesis ------------------------------------------------------------------------------


def test_the_openapi_description_holds(server: RunningServer, seen: Counter[int]) -> None:
    """What Schemathesis derives, valid or not, is answered with a described status and shape."""
    description: dict[str, Any] = Client(server.url).get("/openapi.json").json
    schema = schemathesis.openapi.from_dict(description)
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    assert len(operations) == sum(map(len, description["paths"].values()))
    assert {operation.path for operation in operations} >= set(ROUTES)
    for operation in operations:
        is_post = operation.method == "post"
        # A route without a body or parameters has nothing that could be wrong.
        modes = (
            list(schemathesis.GenerationMode) if is_post else [schemathesis.GenerationMode.POSITIVE]
        )
        for mode in modes:

            @seeded(0.05 / (2 * len(ROUTES)) if is_post else 1 / N_REQUESTS)
            @given(operation.as_strategy(generation_mode=mode))
            def send(case: Any) -> None:
                reply = case.call(base_url=server.url, timeout=HANG_S)
                case.validate_response(
                    reply,
                    checks=[
                        schemathesis.checks.not_a_server_error,
                        openapi_checks.status_code_conformance,
                        openapi_checks.content_type_conformance,
                        openapi_checks.response_schema_conformance,
                    ],
                )
                seen[reply.status_code] += 1

            send()


def test_the_run_was_not_vacuous(seen: Counter[int]) -> None:
    """The requests of this module were sent, and most were refused."""
    sys.stdout.write(f"\nfuzz: {seen.total()} requests, answers by status {dict(seen)}\n")
    assert seen.total() >= 0.95 * N_REQUESTS
    assert seen[200] < 0.3 * N_REQUESTS
