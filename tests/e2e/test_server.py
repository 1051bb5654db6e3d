"""The server as its users meet it: a real process, real sockets, real weights."""

import contextlib
import http.client
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.base.errors import SetupError
from harness.metrics.catalogue.metric import LATENCY_BUCKETS
from harness.metrics.catalogue.server import SERVER_METRICS
from harness.metrics.catalogue.vllm import VLLM_METRICS
from harness.metrics.phases import SERVER_PHASES
from harness.server.accel import EXACT_FEATURES
from harness.server.options import ServerOptions
from harness.server.process import RunningServer, start_server
from tests.e2e.plain_client import WORDS, Client, Reply, ask, engine_of, eventually, is_alive

pytestmark = pytest.mark.e2e

PATHS = [pytest.param("false", id="baseline"), pytest.param("true", id="accelerated")]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """The default server, with a journal that can be read."""
    journal = tmp_path_factory.mktemp("journal") / "journal.sqlite"
    with start_server(ServerOptions(port=0, journal=journal)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Client:
    return Client(server.url)


@pytest.mark.parametrize("accel", PATHS)
@pytest.mark.parametrize("is_stream", [True, False])
def test_phases_add_up_to_the_wall_time(client: Client, accel: str, *, is_stream: bool) -> None:
    """Every phase of the catalogue is told, and their sum is the wall time within 2 %."""

    def one(index: int) -> tuple[float, Reply]:
        began = time.perf_counter()
        body = ask(prompt=WORDS * (2 + 3 * index), max_tokens=20, stream=is_stream)
        reply = client.post("/v1/completions", body, accel=accel)
        return time.perf_counter() - began, reply

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, range(12)))
    for seen_s, reply in answers:
        timings = (reply.events[-1] if is_stream else reply.json)["timings"]
        assert set(timings["phases"]) == set(timings["ttft_phases"]) == set(SERVER_PHASES)
        assert min(timings["phases"].values()) >= 0
        wall_s = timings["wall_s"]
        assert abs(sum(timings["phases"].values()) - wall_s) <= 0.02 * wall_s
        assert timings["unattributed_s"] == pytest.approx(
            wall_s - sum(timings["phases"].values()), abs=1e-8
        )
        ttft_s = timings["ttft_s"]
        assert abs(sum(timings["ttft_phases"].values()) - ttft_s) <= 0.02 * ttft_s
        assert 0 < ttft_s <= wall_s <= seen_s
        busy = ("tokenize", "attention", "ffn", "sample", "kv", "stream", "store")
        assert all(timings["phases"][phase] > 0 for phase in busy)
        if not is_stream:
            shown = dict(part.split(";dur=") for part in reply.headers["server-timing"].split(", "))
            assert float(shown["ffn"]) == pytest.approx(timings["phases"]["ffn"] * 1e3, abs=1e-3)
    waited = [(reply.events[-1] if is_stream else reply.json) for _, reply in answers]
    assert sum(answer["timings"]["phases"]["queue"] for answer in waited) > 0


@pytest.mark.parametrize("accel", PATHS)
def test_lengths_are_token_exact(client: Client, accel: str) -> None:
    """With `ignore_eos` every route writes exactly `max_tokens`, and both paths the same text."""
    for n_tokens in (1, 2, 33):
        body = ask(max_tokens=n_tokens)
        reply = client.post("/v1/completions", body, accel=accel)
        assert reply.json["usage"]["completion_tokens"] == n_tokens
        assert reply.json["choices"][0]["finish_reason"] == "length"
        counted = client.post("/tokenize", {"prompt": body["prompt"]}).json["count"]
        assert reply.json["usage"]["prompt_tokens"] == counted
        infer = client.post("/v1/infer", body, accel=accel).json
        assert (infer["n_output_tokens"], infer["n_prompt_tokens"]) == (n_tokens, counted)
        assert infer["text"] == reply.json["choices"][0]["text"]


def test_chat_stream_has_openai_shape(client: Client) -> None:
    """Role with the first text, deltas, finish, counts without choices, `[DONE]`."""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": WORDS}],
        "max_tokens": 10,
        "temperature": 0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    reply = client.post("/v1/chat/completions", body, accel="true")
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert reply.headers["x-mc-path"] == "accelerated"
    assert reply.headers["x-mc-features"] == ",".join(EXACT_FEATURES)
    assert reply.headers["x-mc-pool"] == "cpu"
    first, *deltas, finish, usage = reply.events
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert {event["object"] for event in reply.events} == {"chat.completion.chunk"}
    assert len({event["id"] for event in reply.events}) == 1
    assert all(event["usage"] is None for event in (first, *deltas, finish))
    assert all(event["choices"][0]["delta"]["content"] for event in deltas)
    assert finish["choices"][0] == {"index": 0, "delta": {}, "finish_reason": "length"}
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 10
    assert usage["timings"]["features"] == list(EXACT_FEATURES)
    whole = client.post("/v1/chat/completions", body | {"stream": False, "stream_options": None})
    text = "".join(event["choices"][0]["delta"]["content"] for event in deltas)
    assert whole.json["choices"][0]["message"] == {"role": "assistant", "content": text}


def test_timings_come_with_the_finish_chunk_when_no_usage_is_asked(client: Client) -> None:
    """Without `include_usage` the finish chunk is the last event and carries the timings."""
    events = client.post("/v1/completions", ask(stream=True)).events
    assert events[-1]["choices"][0]["finish_reason"] == "length"
    assert events[-1]["timings"]["path"] == "baseline"
    assert all("timings" not in event and "usage" not in event for event in events[:-1])


def test_continuous_usage_counts_up(client: Client) -> None:
    """Every chunk with text can carry the counts so far."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    events = client.post("/v1/completions", ask(stream=True, stream_options=options)).events
    counts = [event["usage"]["completion_tokens"] for event in events[:-2]]
    assert counts == sorted(counts)
    assert counts[0] == 1
    assert events[-1]["usage"]["completion_tokens"] == 12


@pytest.mark.parametrize("accel", PATHS)
def test_reasoning_is_counted_streamed_apart_and_timed(client: Client, accel: str) -> None:
    """Depth d gives d exact steps of reasoning text, then the answer; KV grows through it all."""
    messages = [{"role": "user", "content": "Why is the sky blue?"}]
    body = ask(cot_depth=3, cot_step_tokens=11, max_tokens=5, messages=messages, stream=True)
    del body["prompt"]
    body["stream_options"] = {"include_usage": True}
    events = client.post("/v1/chat/completions", body, accel=accel).events
    keys = [key for event in events[1:-2] for key in event["choices"][0]["delta"]]
    assert keys == sorted(keys, reverse=True)  # reasoning_content first, content after
    assert set(keys) == {"reasoning_content", "content"}
    usage, timings = events[-1]["usage"], events[-1]["timings"]
    assert usage["completion_tokens"] == 3 * 11 + 5
    assert usage["completion_tokens_details"]["reasoning_tokens"] == 33
    assert [step["tokens"] for step in timings["steps"]] == [11, 11, 11]
    kv = [usage["prompt_tokens"], *(step["kv_tokens"] for step in timings["steps"])]
    assert kv == sorted(kv)
    assert timings["kv_tokens"] > kv[-1]
    assert 0 < sum(step["seconds"] for step in timings["steps"]) < timings["wall_s"]


def test_a_seed_fixes_the_answer_on_both_paths(client: Client) -> None:
    """The same seed draws the same text on either path; without one, answers differ."""
    drawn = ask(temperature=1.0, top_p=0.95, frequency_penalty=0.4, max_tokens=24)
    texts = {
        client.post("/v1/infer", drawn | {"seed": 5}, accel=accel).json["text"]
        for accel in ("false", "true", "paged_kv")
    }
    assert len(texts) == 1
    assert len({client.post("/v1/infer", drawn).json["text"] for _ in range(3)}) == 3


def test_stop_text_ends_the_answer_before_it(client: Client) -> None:
    """The answer ends before the stop text; counts cover the tokens up to it."""
    body = ask(max_tokens=60)
    text = client.post("/v1/completions", body).json["choices"][0]["text"]
    stop = text[20:24]
    for is_stream in (False, True):
        options = {"include_usage": True} if is_stream else None
        reply = client.post(
            "/v1/completions", body | {"stop": stop, "stream": is_stream, "stream_options": options}
        )
        if is_stream:
            got = "".join(event["choices"][0]["text"] for event in reply.events[:-1])
            reason = reply.events[-2]["choices"][0]["finish_reason"]
            n_tokens = reply.events[-1]["usage"]["completion_tokens"]
        else:
            got = reply.json["choices"][0]["text"]
            reason = reply.json["choices"][0]["finish_reason"]
            n_tokens = reply.json["usage"]["completion_tokens"]
        assert got == text[: text.index(stop)]
        timings = (reply.events[-1] if is_stream else reply.json)["timings"]
        ttft_s = timings["ttft_s"]
        assert abs(sum(timings["ttft_phases"].values()) - ttft_s) <= 0.02 * ttft_s
        assert reason == "stop"
        assert 0 < n_tokens < 60


def test_fields_that_would_do_nothing_are_refused(client: Client) -> None:
    """Nothing is accepted and ignored: the message names the field and when it is allowed."""
    whole = client.post("/v1/completions", ask(stream_options={"include_usage": True}))
    assert whole.status == 400
    assert "stream_options" in whole.json["error"]["message"]
    messages = [{"role": "user", "content": WORDS}]
    count = client.post("/tokenize", {"messages": messages, "add_special_tokens": True})
    assert count.status == 400
    assert "add_special_tokens" in count.json["error"]["message"]


def test_tokenize_and_detokenize(client: Client) -> None:
    """Counts equal what a prompt is charged; a batch counts each; ids turn back into text."""
    one = client.post("/tokenize", {"prompt": WORDS}).json
    assert one["count"] == len(one["tokens"])
    assert one["max_model_len"] == 2048
    plain = client.post("/tokenize", {"prompt": WORDS, "add_special_tokens": False}).json
    assert one["tokens"][1:] == plain["tokens"]
    assert client.post("/detokenize", {"tokens": plain["tokens"]}).json == {"prompt": WORDS}
    batch = client.post("/tokenize", {"prompts": [WORDS, "a", ""]}).json
    assert batch["counts"][0] == one["count"]
    assert batch["counts"][2] == 1
    messages = [{"role": "user", "content": WORDS}]
    chat = client.post("/tokenize", {"messages": messages}).json["count"]
    body = {"messages": messages, "max_tokens": 1}
    usage = client.post("/v1/chat/completions", body).json["usage"]
    assert usage["prompt_tokens"] == chat
    assert client.post("/tokenize", {}).status == 400
    assert client.post("/detokenize", {"tokens": [10**6]}).status == 400


@pytest.mark.parametrize(
    ("path", "body", "status", "param"),
    [
        ("/v1/completions", {"prompt": "x", "temperature": 3}, 400, "temperature"),
        ("/v1/completions", {"prompt": [4096]}, 400, "prompt[0]"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 5000}, 400, "max_tokens"),
        ("/v1/completions", {"prompt": "x", "model": "gpt-4"}, 404, "model"),
        ("/v1/chat/completions", {"messages": []}, 400, "messages"),
        ("/v1/infer", {"prompt": "x", "stream": True}, 400, "stream"),
        ("/v1/infer", b"{", 400, None),
        ("/v1/infer", b'"' + b"x" * (1 << 20) + b'"', 413, None),
        ("/v1/nothing", {}, 404, None),
    ],
)
def test_refusals_have_openai_shape(
    client: Client, path: str, body: Any, status: int, param: str | None
) -> None:
    """Each refusal has status, type, message and the field at fault."""
    reply = client.post(path, body)
    assert reply.status == status
    error = reply.json["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert client.get("/v1/infer").status == 405


def test_unknown_accel_word_is_refused(client: Client) -> None:
    """A word this build does not have is answered 400 with the list of what it has."""
    reply = client.post("/v1/infer", ask(), accel="warp_drive")
    assert reply.status == 400
    assert "paged_kv" in reply.json["error"]["message"]
    assert client.post("/v1/infer", ask(), accel="paged_kv").headers["x-mc-path"] == "accelerated"


def test_a_client_that_leaves_frees_its_memory(client: Client) -> None:
    """Closing the connection ends the sequence within a step and frees its KV."""
    cancelled = client.value("mc_accel_requests_total", path="baseline", outcome="cancelled")
    with client.open_stream(ask(max_tokens=1500)) as raw:
        while b"data: " not in raw.recv(65536):
            pass
        eventually(lambda: client.value("mc_accel_running_sequences") == 1, 20)
        assert client.value("mc_accel_kv_held_tokens") > 0
    eventually(lambda: client.value("mc_accel_kv_held_tokens") == 0, 20)
    assert client.value("mc_accel_running_sequences") == 0
    assert (
        client.value("mc_accel_requests_total", path="baseline", outcome="cancelled")
        == cancelled + 1
    )
    with contextlib.ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(client.open_stream(ask(max_tokens=1500)))
        eventually(lambda: client.value("mc_accel_waiting_sequences") > 0, 20)
    eventually(lambda: client.value("mc_accel_waiting_sequences") == 0, 20)


def test_a_client_that_does_not_read_holds_nobody_up(client: Client) -> None:
    """The engine finishes a stream nobody reads, and others are answered meanwhile."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = ask(max_tokens=700, stream_options=options)
    with client.open_stream(body, small_buffer=True) as raw:
        eventually(lambda: client.value("mc_accel_running_sequences") == 1, 20)
        while client.value("mc_accel_running_sequences") == 1:
            assert client.post("/v1/infer", ask(max_tokens=2)).status == 200
        data = b""
        while not data.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n"):
            part = raw.recv(65536)
            assert part
            data += part
    assert b'"completion_tokens":700' in data


def test_metrics_tell_what_happened(client: Client) -> None:
    """Known requests move every series by what they were; the text is format 0.0.4."""
    before = client.samples()
    for _ in range(3):
        client.post("/v1/completions", ask(max_tokens=7), accel="true")
    client.post("/v1/completions", ask(temperature=9))
    after = client.samples()

    def moved(name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return after.get(key, 0.0) - before.get(key, 0.0)

    path = {"path": "accelerated"}
    n_prompt = client.post("/tokenize", {"prompt": ask()["prompt"]}).json["count"]
    assert moved("mc_accel_requests_total", outcome="length", **path) == 3
    assert moved("mc_accel_output_tokens_total", **path) == 21
    assert moved("mc_accel_prompt_tokens_total", **path) == 3 * n_prompt
    assert moved("mc_accel_infer_duration_seconds_count", **path) == 3
    wall_s = moved("mc_accel_infer_duration_seconds_sum", **path)
    assert wall_s > 0
    phases = [moved("mc_accel_phase_duration_seconds_sum", phase=p, **path) for p in SERVER_PHASES]
    assert sum(phases) == pytest.approx(wall_s, rel=0.02)
    assert moved("mc_accel_infer_duration_seconds_bucket", le="100.0", **path) == 3
    assert moved("mc_accel_refused_total", status="400") == 1
    assert moved("mc_accel_requests_total", outcome="length", path="baseline") == 0
    assert after[("mc_accel_kv_capacity_tokens", (("pool", "cpu"),))] == 2560
    reply = client.get("/metrics")
    assert reply.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    exposed = {family.name for family in text_string_to_metric_families(reply.body.decode())}
    catalogued = (*SERVER_METRICS, *VLLM_METRICS)
    assert exposed == {metric.name.removesuffix("_total") for metric in catalogued}
    inside = [bound for bound in LATENCY_BUCKETS if 0.001 <= bound <= 1]
    ratios = [high / low for low, high in pairwise(inside)]
    assert 1 < min(ratios) <= max(ratios) < 1.12


def test_the_journal_has_a_row_per_request_and_no_text(
    client: Client, server: RunningServer
) -> None:
    """The row is there when the answer is, with counts and outcome; prompts are not kept."""
    secret = "xylophone quartz"
    reply = client.post("/v1/completions", ask(prompt=secret, max_tokens=3), accel="true")
    file = journal_of(server)
    with contextlib.closing(sqlite3.connect(file)) as journal:
        rows = journal.execute("SELECT * FROM requests ORDER BY finished_unix_ns").fetchall()
    row = rows[-1]
    assert row[0] == reply.json["id"].removeprefix("cmpl-")
    assert row[2:4] == ("accelerated", ",".join(EXACT_FEATURES))
    assert row[5:8] == (3, 0, "length")
    assert 0 < row[8] <= reply.json["timings"]["wall_s"]
    text = file.read_bytes() + Path(f"{file}-wal").read_bytes() + server.last_errors().encode()
    assert b"xylophone" not in text


def test_state_routes(client: Client) -> None:
    """Health, readiness and the model list answer."""
    assert client.get("/healthz").json == {"status": "ok", "pools": {"cpu": "ok"}}
    assert client.get("/readyz").json == {"status": "ready", "pools": {"cpu": "ok"}}
    entry = client.get("/v1/models").json["data"][0]
    assert (entry["id"], entry["max_model_len"]) == ("tiny", 2048)


def test_a_taken_port_is_told(client: Client) -> None:
    """A second server on the same port ends with words, not with a trace."""
    with pytest.raises(SetupError, match=f"port {client.port} on 127.0.0.1 is taken") as caught:
        start_server(ServerOptions(port=client.port))
    assert "Traceback" not in str(caught.value)
    assert "exit status 2" in str(caught.value)


def test_an_idle_server_sleeps(server: RunningServer) -> None:
    """Without requests front and engine together use less than 3 % of one core."""

    def cpu_s() -> float:
        total = 0
        for pid in (server.pid, engine_of(server.pid)):
            fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")

    before = cpu_s()
    time.sleep(1.5)
    assert cpu_s() - before < 0.045


def journal_of(server: RunningServer) -> Path:
    """The file given with `--journal`."""
    arguments = server.process.args
    assert isinstance(arguments, list)
    return Path(str(arguments[arguments.index("--journal") + 1]))


def test_a_full_queue_a_key_and_a_dead_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """429 with Retry-After when full; 401 without the key; engine death ends all in words."""
    monkeypatch.setenv("SERVER_TEST_KEY", "open sesame")
    options = ServerOptions(
        port=0, max_num_seqs=1, max_queued_requests=0, api_key_env="SERVER_TEST_KEY"
    )
    with start_server(options) as server:
        client = Client(server.url)
        assert client.post("/v1/infer", ask()).status == 401
        assert client.get("/healthz").status == 200
        key = {"Authorization": "Bearer open sesame"}
        assert client.post("/v1/infer", ask(), **key).status == 200
        engine = engine_of(server.pid)
        with contextlib.closing(
            http.client.HTTPConnection(client.host, client.port, timeout=30)
        ) as held:
            body = ask(max_tokens=1500, stream=True)
            held.request("POST", "/v1/completions", json.dumps(body), key)
            stream = held.getresponse()
            stream.readline()
            full = client.post("/v1/infer", ask(), **key)
            assert (full.status, full.headers["retry-after"]) == (429, "1")
            assert full.json["error"]["code"] == "queue_full"
            assert client.get("/readyz").status == 503
            os.kill(engine, signal.SIGKILL)
            rest = stream.read().decode()
        *_, error, done = [line[6:] for line in rest.splitlines() if line.startswith("data: ")]
        assert done == "[DONE]"
        assert json.loads(error)["error"]["code"] == "engine_died"
        assert client.get("/healthz").status == 503
        refused = client.post("/v1/infer", ask(), **key)
        assert refused.status == 503
        assert refused.json["error"]["type"] == "server_error"
        eventually(lambda: server.process.poll() is not None, 60)
        assert server.process.poll() == 2
        assert "the engine process died" in server.last_errors()


def test_no_orphans(tmp_path: Path) -> None:
    """Killing whoever started the server ends front and engine."""
    script = (
        "import sys, time\n"
        "from harness.server.options import ServerOptions\n"
        "from harness.server.process import start_server\n"
        "server = start_server(ServerOptions(port=0, journal=sys.argv[1]))\n"
        "print(server.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "journal")],
        cwd=root,
        stdout=subprocess.PIPE,
        text=True,
    ) as starter:
        assert starter.stdout is not None
        front = int(starter.stdout.readline())
        engine = engine_of(front)
        starter.kill()
    eventually(lambda: not is_alive(front) and not is_alive(engine), 60)


def test_a_killed_front_ends_the_engine(tmp_path: Path) -> None:
    """The engine notices the closed socket, even in the middle of a generation."""
    with start_server(ServerOptions(port=0, journal=tmp_path / "journal")) as server:
        client = Client(server.url)
        engine = engine_of(server.pid)
        with client.open_stream(ask(max_tokens=1500)) as raw:
            raw.recv(65536)
            os.kill(server.pid, signal.SIGKILL)
            eventually(lambda: not is_alive(engine), 60)


@pytest.mark.parametrize("is_early", [True, False])
def test_stopping_is_clean(tmp_path: Path, *, is_early: bool) -> None:
    """SIGTERM amid the start or an unread stream: no trace of a process, no temporary journal."""
    command = [sys.executable, "-m", "harness.cli.main", "serve", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        if is_early:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
            eventually(lambda: bool(children.read_text()), 20)
            os.killpg(process.pid, signal.SIGTERM)
            stdout, stderr = process.communicate(timeout=20)
        else:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            client = Client(url)
            unread = ask(max_tokens=1500, prompt="x", logprobs=20)
            with client.open_stream(unread, small_buffer=True):
                eventually(lambda: client.value("mc_accel_kv_held_tokens") >= 512, 60)
                os.killpg(process.pid, signal.SIGTERM)
                stdout, stderr = process.communicate(timeout=20)
    assert (stdout, "Traceback" in stderr) == ("", False)
    assert process.returncode == (128 + signal.SIGTERM if is_early else 0)
    assert list(tmp_path.glob("tailbreak-*")) == []
