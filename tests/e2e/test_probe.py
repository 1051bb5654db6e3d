"""`tailbreak probe` and `tailbreak doctor` as a stranger runs them."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from harness.server.options import ServerOptions
from harness.server.process import start_server
from tests.cli_process import command
from tests.small_server import serving

pytestmark = pytest.mark.e2e
KEY = "PROBE_TEST_KEY"
SECRET = "a-key-of-the-test"  # the value of a variable of this test alone


def tailbreak(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        env={**os.environ, "COLUMNS": "160", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The bundled server, behind a key."""
    os.environ[KEY] = SECRET
    try:
        with start_server(ServerOptions(port=0, threads=1, api_key_env=KEY)) as server:
            yield server.url
    finally:
        del os.environ[KEY]


def answering(
    models: list[str], status: int, body: bytes, kind: str
) -> AbstractContextManager[str]:
    """A server that lists these models and gives every generation the same answer."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            data = json.dumps({"data": [{"id": model} for model in models]}).encode()
            found = self.path == "/v1/models"
            self._say(200 if found else 404, data if found else b"{}", "application/json")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self._say(status, body, kind)

        def _say(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return serving(Handler)


@pytest.fixture(scope="module")
def found(url: str) -> dict[str, Any]:
    """A probe of the bundled server, with its key."""
    done = tailbreak("probe", url, "-n", "3", "--json", "--api-key-env", KEY)
    assert done.returncode == 0, done.stderr + done.stdout
    assert SECRET not in done.stdout
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def test_the_bundled_server_is_known_and_measured(found: dict[str, Any]) -> None:
    """Who it is, both APIs, exact lengths, counts from usage, three whole answers."""
    assert (found["schema"], found["server"]["name"]) == (1, "tailbreak serve")
    assert [api["works"] for api in found["apis"]] == [True, True]
    assert found["prompt_lengths"]["state"] == "exact"
    assert found["stream"]["count_source"] == "usage"
    assert (found["requests"]["n"], found["requests"]["n_ok"]) == (3, 3)
    for name in ("ttft_s", "itl_s", "e2e_s"):
        figure = found["latency_s"][name]
        assert 0 < figure["low"] <= figure["median"] <= figure["high"]
    assert found["latency_s"]["ttft_s"]["n"] == 3


def test_the_bundled_server_ignores_nothing(found: dict[str, Any]) -> None:
    """Every field that a scenario can set is honoured, and an unknown one is refused."""
    states = {parameter["name"]: parameter["state"] for parameter in found["parameters"]}
    for name in (
        "temperature 0", "temperature", "seed", "top_k", "top_p", "min_p", "frequency_penalty",
        "presence_penalty", "repetition_penalty", "stop", "max_tokens",
    ):  # fmt: skip
        assert states[name] == "honoured", found["parameters"]
    assert "ignored" not in states.values(), found["parameters"]
    assert states["an unknown field"] == "refused"


def test_the_accelerated_path_and_its_features_are_named(found: dict[str, Any]) -> None:
    """`X-MC-Accel: true` ran, by the server's own word."""
    assert found["acceleration"]["state"] == "honoured"
    assert "paged_kv" in found["acceleration"]["features"]


def test_a_person_gets_tables(url: str) -> None:
    """The same facts in words, and no heavy library for them."""
    code = (
        "import sys; from harness.cli import main\n"
        "try: main.main()\n"
        "except SystemExit as end: code = end.code\n"
        "heavy = {'torch', 'pandas', 'scipy', 'numpy', 'locust', 'pyarrow'} & set(sys.modules)\n"
        "sys.exit(f'heavy: {heavy}' if heavy else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "probe", url, "-n", "1", "--api-key-env", KEY],
        env={**os.environ, "COLUMNS": "160"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    for words in ("tailbreak serve", "receive stamps", "TTFT", "repetition_penalty", "honoured"):
        assert words in done.stdout


def test_a_missing_or_wrong_key_is_said(url: str) -> None:
    """Exit 2: the variable is not set, or no key was given to a server that wants one."""
    unset = tailbreak("probe", url, "--api-key-env", "NO_SUCH_VARIABLE")
    assert (unset.returncode, "NO_SUCH_VARIABLE" in unset.stderr) == (2, True)
    without = tailbreak("probe", url)
    wrong = tailbreak("probe", url, "--api-key-env", "OTHER_KEY", OTHER_KEY="not-it")
    for done in (without, wrong):
        assert (done.returncode, "--api-key-env" in done.stderr) == (2, True), done.stderr


def test_nobody_there_is_said() -> None:
    """Exit 2 and the address, for a port without a listener and for no URL at all."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = tailbreak("probe", url)
    assert (done.returncode, url in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    odd = tailbreak("probe", "127.0.0.1:8000")
    assert (odd.returncode, "http://" in odd.stderr) == (2, True)


def test_several_models_are_a_choice() -> None:
    """Exit 2 and the list, of a probe and of a run alike; with --model the probe goes on."""
    with answering(["alpha", "beta"], 500, b"{}", "application/json") as url:
        run = ("run", "scenarios/quickstart.toml", "--target", url)
        for done in (tailbreak("probe", url), tailbreak(*run)):
            assert done.returncode == 2
            assert all(word in done.stderr for word in ("alpha", "beta", "--model"))
        assert tailbreak("probe", url, "--model", "alpha").returncode == 5


@pytest.mark.parametrize(
    ("status", "body", "kind", "words"),
    [
        (500, b'{"error":{"message":"planted"}}', "application/json", "planted"),
        (200, b'{"choices":[{"message":{"content":"hi"}}]}', "application/json", "without events"),
    ],
)
def test_a_server_without_a_streamed_answer_is_no_target(
    status: int, body: bytes, kind: str, words: str
) -> None:
    """Exit 5 and what came: a failure, or an answer in one piece."""
    with answering(["m"], status, body, kind) as url:
        done = tailbreak("probe", url)
    assert (done.returncode, words in done.stderr) == (5, True), done.stderr


def test_ctrl_c_is_told_in_one_line() -> None:
    """A server that never answers and an impatient person: exit 2 and a word, no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", "probe", url, "--model", "m"],
            stderr=subprocess.PIPE,
            text=True,
        )
        peer, _ = listener.accept()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        peer.close()
    assert (process.returncode, err.strip()) == (2, "tailbreak: interrupted")


def test_wrong_usage_is_told_and_not_traced() -> None:
    """A missing argument, an unknown option, an unknown verb: exit 2 and a hint."""
    for arguments in (["probe"], ["plan", "--nope"], ["nosuchverb"], ["probe", "x", "-n", "0"]):
        done = tailbreak(*arguments)
        assert (done.returncode, "Traceback" in done.stderr) == (2, False), arguments
        assert "Error" in done.stderr


def test_doctor_looks_at_everything(tmp_path: Path) -> None:
    """Every check by name; each lack says what it costs and what to do; the folder stays clean."""
    done = tailbreak("doctor", "--json", "--runs-dir", str(tmp_path / "runs"))
    assert done.returncode == 0, done.stderr
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert {
        "receive stamps", "clock source", "clock resolution", "clock steps", "cores",
        "cpu frequency", "stolen time", "other work", "open files", "memory", "priority",
        "time slices", "port", "python", "torch", "native kernels", "gpu", "runs folder",
        "disk space", "fsync", "Redis", "Prometheus", "Chromium",
    } == set(checks)  # fmt: skip
    for check in checks.values():
        assert check["found"]
        assert bool(check["costs"]) == bool(check["do"]) == (check["state"] != "ok"), check
    assert not list(tmp_path.iterdir())


def test_doctor_says_when_measuring_is_impossible(tmp_path: Path) -> None:
    """A runs folder below a file: exit 2, in the table too."""
    (tmp_path / "file").write_text("x")
    done = tailbreak("doctor", "--runs-dir", str(tmp_path / "file" / "runs"))
    assert (done.returncode, "impossible" in done.stdout) == (2, True), done.stdout
    assert "no run can be recorded" in done.stdout
