"""The whole chain against planted truths: load, stamps, records, statistics, report."""

import json
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.load.client.rx_timestamp import RxTimestamps
from harness.server.truth.process import start_truth
from tests.e2e.truth_process import truth_server
from tools.stamp_error import CLIENTS, measure
from tools.truth_laws import LAWS, run_law

pytestmark = pytest.mark.e2e
FAST = ("jump", "kink", "smooth", "staircase")


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server that answers after 2 ms."""
    with truth_server(ttft_ms=2) as truth:
        yield truth.url


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_a_planted_law_is_reported_as_it_is(name: str, tmp_path: Path) -> None:
    """Right kind at the right place; where the report says that it cannot tell, that is told."""
    run = run_law(LAWS / f"{name}.toml", tmp_path, seed=1)
    found = run.found.model_dump(exclude={"ranked"})
    assert sum(cell.n for cell in run.report.cells) == 14 * 440
    if run.judge() == "undecided":
        pytest.skip(f"too busy a machine: {run.report.verdict.text}")
    assert run.judge() == "right", found
    if name == "jump":
        assert found["effect_low"] <= 0.4 <= found["effect_high"]


def test_receive_stamps_are_nearer_to_the_truth_than_reads(tmp_path: Path) -> None:
    """A client busy two thirds of its time: the stamp's error stays, the read's grows.

    Tokens come 50 ms apart: each is read alone, so that no stamp is that of a later one.
    """
    stamps = RxTimestamps.detect()  # held open: the system keeps stamping
    if not stamps.is_kernel:
        pytest.skip(stamps.reason)
    (errors,) = measure(CLIENTS["busy"], tmp_path, [8], 48, gap_s=0.05).values()
    assert errors.stamped_s.size == 48
    assert (errors.stamped_s <= errors.read_s).all()
    assert errors.stamped_s.min() > -0.001  # never before it was sent
    assert np.median(errors.stamped_s) < np.median(errors.read_s) / 2
    assert np.quantile(errors.stamped_s, 0.99) <= np.quantile(errors.read_s, 0.99)
    stamps.close()


def ask(url: str, path: str, body: dict[str, Any] | None = None) -> tuple[int, bytes]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_every_route_answers_by_its_shape() -> None:
    """Streamed or not, chat or text: the tokens asked for, and the same in usage and log."""
    with truth_server(ttft_ms=2) as truth:
        chat = {"messages": [{"role": "user", "content": "a b c"}], "max_tokens": 3}
        status, body = ask(truth.url, "/v1/chat/completions", chat)
        assert status == 200
        assert json.loads(body)["choices"][0]["message"]["content"] == "w0 w1 w2"
        assert json.loads(body)["usage"]["prompt_tokens"] == 7
        _, stream = ask(truth.url, "/v1/completions", {"prompt": "a b", "stream": True})
        events = [line for line in stream.decode().split("\n\n") if line]
        assert len(events) == 16 + 3
        assert events[-1] == "data: [DONE]"
        assert json.loads(ask(truth.url, "/tokenize", {"prompt": "a b"})[1]) == {"count": 2}
        assert json.loads(ask(truth.url, "/tokenize", {"prompts": ["a", ""]})[1]) == {
            "counts": [1, 0]
        }
        assert ask(truth.url, "/healthz")[0] == 200
        assert json.loads(ask(truth.url, "/v1/models")[1])["data"][0]["id"] == "truth"
        assert [len(entry["token_ns"]) for entry in truth.log()] == [3, 16]


def test_reasoning_comes_first_and_is_counted(url: str) -> None:
    """cot_depth 2 of 4 tokens: eight reasoning events, then the answer; usage names them."""
    body = {
        "messages": [{"role": "user", "content": "a"}], "max_tokens": 2, "stream": True,
        "cot_depth": 2, "cot_step_tokens": 4,
    }  # fmt: skip
    _, stream = ask(url, "/v1/chat/completions", body)
    events = [json.loads(line[6:]) for line in stream.decode().split("\n\n")[:-2]]
    deltas = [next(iter(event["choices"][0]["delta"])) for event in events[:10]]
    assert deltas == ["reasoning_content"] * 8 + ["content"] * 2
    assert events[-1]["usage"]["completion_tokens_details"] == {"reasoning_tokens": 8}


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("/v1/completions", {"prompt": 3}, 400, "prompt: allowed is a string"),
        ("/v1/completions", {"prompt": "a", "max_tokens": 0}, 400, "allowed 1-100000"),
        ("/v1/completions", {"prompt": "a", "seed": -1}, 400, "seed: allowed is a whole number"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages: allowed is a list"),
        ("/v1/completions", {"prompt": "a", "cot_depth": "x"}, 400, "cot_depth"),
        ("/log?after=x", None, 400, "after: allowed is a whole number"),
        ("/nowhere", None, 404, "no route GET /nowhere"),
    ],
)
def test_what_cannot_be_answered_is_said(
    url: str, path: str, body: dict[str, Any] | None, status: int, said: str
) -> None:
    """A 4xx with the field and what is allowed; the server goes on."""
    found, text = ask(url, path, body)
    assert (found, said in text.decode()) == (status, True), text
    assert ask(url, "/healthz")[0] == 200


def test_no_http_is_answered_with_400_and_closed(url: str) -> None:
    """Garbage on the port ends that connection only."""
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), timeout=10) as sock:
        sock.sendall(b"hello\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert ask(url, "/healthz")[0] == 200


def test_sends_follow_the_law_and_the_log_tells_when(tmp_path: Path) -> None:
    """Never before its time; the record on disk holds what the log shows."""
    record = tmp_path / "record.jsonl"
    with start_truth(LAWS / "jump.toml", "--record", str(record)) as server:
        for n in (10, 500):
            body = {"prompt": "a " * n, "max_tokens": 2, "stream": True}
            assert ask(server.url, "/v1/completions", body)[0] == 200
        log = server.log()
    assert [entry["n_prompt"] for entry in log] == [10, 500]
    for entry in log:
        first, second = entry["token_ns"]
        assert first - entry["arrival_ns"] >= entry["planted_ttft_s"] * 1e9 - 1000
        assert second - first > 0
        assert entry["n_blocked"] == 0
    assert log[1]["planted_ttft_s"] > 1.2 * log[0]["planted_ttft_s"]
    assert [json.loads(line) for line in record.read_text().splitlines()] == log


def test_the_same_seed_plants_the_same_latencies() -> None:
    """Two servers, one seed; another seed differs."""

    def planted(seed: str) -> list[float]:
        with start_truth(LAWS / "heavy-tail.toml", "--seed", seed) as server:
            for _ in range(3):
                ask(server.url, "/v1/completions", {"prompt": "a", "max_tokens": 1})
            return [entry["planted_ttft_s"] for entry in server.log()]

    assert planted("5") == planted("5") != planted("6")


def test_credentials_reach_the_log_as_digests_only() -> None:
    """What was sent can be checked, and not read."""
    with truth_server() as truth:
        request = urllib.request.Request(
            f"{truth.url}/v1/completions",
            json.dumps({"prompt": "private words", "max_tokens": 1}).encode(),
            {"Authorization": "Bearer sk-secret"},
        )
        urllib.request.urlopen(request, timeout=10).close()
        text = json.dumps(truth.log())
    assert "sk-secret" not in text
    assert "private" not in text
    assert text.count("sha256:") == 2


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "harness.cli.main", "truth", *arguments],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def test_a_bad_law_or_port_or_record_exits_2_with_words(tmp_path: Path) -> None:
    """The file and key path; the port; the file that is there already. No traceback."""
    bad = tmp_path / "bad.toml"
    bad.write_text('schema = 1\nname = "x"\ntitle = "X"\n[ttft]\nbase_s = -1.0\nslop_s = 1.0\n')
    taken = tmp_path / "taken.jsonl"
    taken.touch()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        jump = str(LAWS / "jump.toml")
        results = [
            (cli(str(bad)), ["ttft.base_s", "ttft.slop_s", "try slope_s", "truth", "required"]),
            (cli(jump, "--port", port), [port, "--port"]),
            (cli(jump, "--record", str(taken), "--port", "0"), [str(taken), "File exists"]),
        ]
    for done, words in results:
        assert done.returncode == 2, done.stderr
        assert all(word in done.stderr for word in words), done.stderr
        assert "Traceback" not in done.stderr
