"""Several engine processes behind one server: who runs what, and `kill -9` of one amid streams."""

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.server.accel import FEATURES
from harness.server.options import ServerOptions
from harness.server.process import RunningServer, start_server
from kernels import cpu
from kernels.backend import has_native
from tests.e2e.plain_client import WORDS, Client, Reply, ask, engines_of, eventually

pytestmark = pytest.mark.e2e

POOLS = ["latency=cpu,seqs=2", "bulk=cpu,seqs=8,batched_tokens=1024", "half=cpu,dtype=bfloat16"]


def start(pools: list[str]) -> RunningServer:
    return start_server(ServerOptions.model_validate({"port": 0, "pool": pools, "threads": 1}))


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """A server for latency, for throughput, and one pool of another dtype."""
    with start(POOLS) as server:
        yield Client(server.url)


def timings(reply: Reply) -> Any:
    return reply.json["timings"]


def stream(client: Client, body: dict[str, Any], accel: str, begun: threading.Semaphore) -> Reply:
    """Ask for a stream, tell when its first text is here, read it to its end."""
    to = http.client.HTTPConnection(client.host, client.port, timeout=120)
    with contextlib.closing(to):
        data = json.dumps(body | {"stream": True}).encode()
        to.request("POST", "/v1/completions", data, {"X-MC-Accel": accel})
        reply = to.getresponse()
        head = reply.readline()
        begun.release()
        headers = {name.lower(): value for name, value in reply.getheaders()}
        return Reply(reply.status, headers, head + reply.read())


def streams(
    client: Client, bodies: list[dict[str, Any]], accel: str, on_begun: Any = None
) -> list[Reply]:
    """Read streams side by side; `on_begun` is called when each has begun."""
    begun = threading.Semaphore(0)
    with ThreadPoolExecutor(len(bodies)) as readers:
        reading = [readers.submit(stream, client, body, accel, begun) for body in bodies]
        for _ in bodies:
            assert begun.acquire(timeout=120)
        if on_begun is not None:
            on_begun()
        return [each.result() for each in reading]


def text_of(reply: Reply) -> str:
    return "".join(event["choices"][0]["text"] for event in reply.events)


def long_bodies(n: int) -> list[dict[str, Any]]:
    """Requests whose answers are drawn by seed and take a while."""
    return [
        ask(prompt=f"Chapter {seed}. {WORDS}", max_tokens=200, temperature=1.0, seed=seed)
        for seed in range(n)
    ]


def test_requests_at_once_spread_over_the_pools(client: Client) -> None:
    """Both pools of the first dtype run some; texts are the baseline's, which stays in one."""
    bodies = [ask(prompt=f"{WORDS}{number}", max_tokens=40) for number in range(12)]

    def post(accel: str) -> list[Reply]:
        with ThreadPoolExecutor(len(bodies)) as pool:
            return list(pool.map(lambda body: client.post("/v1/infer", body, accel=accel), bodies))

    baseline, spread = post("false"), post("true")
    assert {timings(reply)["pool"] for reply in baseline} == {"latency"}
    assert {timings(reply)["pool"] for reply in spread} == {"latency", "bulk"}
    for reply in spread:
        assert reply.headers["x-mc-pool"] == timings(reply)["pool"]
        assert timings(reply)["n_restarts"] == 0
        assert "device_pool" in timings(reply)["features"]
    assert [reply.json["text"] for reply in spread] == [reply.json["text"] for reply in baseline]


def test_an_idle_pool_is_preferred_to_a_busy_one(client: Client) -> None:
    """While long baseline answers hold the first pool, requests that may choose go elsewhere."""
    seen: list[str] = []

    def choose() -> None:
        for accel in ("device_pool", "false"):
            reply = client.post("/v1/infer", ask(max_tokens=1), accel=accel)
            seen.append(timings(reply)["pool"])

    streams(client, long_bodies(4), "false", choose)
    assert seen == ["bulk", "latency"]


def test_a_pool_of_another_dtype_is_named_or_not_used(client: Client) -> None:
    """`device_pool:bf16` runs there and says so; a dtype no pool has is an unknown word."""
    named = client.post("/v1/infer", ask(), accel="device_pool:bf16")
    assert (timings(named)["pool"], timings(named)["features"]) == ("half", ["device_pool:bf16"])
    others = [word for word in FEATURES if word != "device_pool"]
    every = client.post("/v1/infer", ask(), accel=",".join([*others, "device_pool:bf16"]))
    assert (timings(every)["pool"], timings(every)["path"]) == ("half", "accelerated")
    either = client.post("/v1/infer", ask(), accel="true,device_pool:bf16")
    assert timings(either)["features"][-2:] == ["device_pool", "device_pool:bf16"]
    marks = {
        client.post("/v1/completions", ask(), accel=accel).json["system_fingerprint"]
        for accel in ("false", "device_pool", "device_pool:bf16")
    }
    assert len(marks) == 2
    refused = client.post("/v1/infer", ask(), accel="device_pool:fp32")
    assert refused.status == 400
    assert "device_pool:bf16;" in refused.json["error"]["message"]
    assert "device_pool, " in refused.json["error"]["message"]
    models = client.get("/v1/models").json["data"][0]
    assert {"device_pool", "device_pool:bf16"} <= set(models["accel_features"])
    assert models["kernels"] == (cpu.native.ISA if has_native() else "torch")


def check_survivors(client: Client, replies: list[Reply], expected: list[str], lost: str) -> None:
    """Every stream ended right, once, with the expected text; the lost pool is told everywhere."""
    assert [text_of(reply) for reply in replies] == expected
    accounts = [reply.events[-1]["timings"] for reply in replies]
    moved = [each for each in accounts if each["n_restarts"]]
    assert moved
    assert {each["n_restarts"] for each in moved} == {1}
    assert {each["pool"] for each in accounts} == {"b"}
    for reply, each in zip(replies, accounts, strict=True):
        assert abs(each["unattributed_s"]) <= 0.02 * each["wall_s"]
        assert (each["phases"]["stall"] > 0) >= bool(each["n_restarts"])
        assert (reply.headers["x-mc-pool"] == lost) == bool(each["n_restarts"])
    assert client.value("mc_accel_restarts_total", pool=lost) == len(moved)
    assert client.value("mc_accel_pool_up", pool=lost) == 0
    assert client.value("mc_accel_pool_up", pool="b") == 1
    for route in ("/healthz", "/readyz"):
        state = client.get(route)
        assert (state.status, state.json["pools"]) == (200, {"a": "died", "b": "ok"})
    eventually(lambda: client.value("mc_accel_running_sequences") == 0, 20)


@pytest.mark.parametrize("accel", ["true", "false"])
def test_streams_survive_the_death_of_their_pool(accel: str) -> None:
    """After `kill -9` amid streams each ends with the tokens of an undisturbed run, none twice."""
    bodies = long_bodies(6)
    with start(["a=cpu,seqs=8", "b=cpu,seqs=8"]) as server:
        client = Client(server.url)
        expected = [text_of(reply) for reply in streams(client, bodies, accel)]
        engines = engines_of(server.pid)
        replies = streams(client, bodies, accel, lambda: os.kill(engines[0], signal.SIGKILL))
        check_survivors(client, replies, expected, "a")
        assert "pool a: the engine process died" in server.last_errors()
        # The pool that is left serves everybody, until it dies too.
        after = client.post("/v1/completions", bodies[0], accel="false")
        assert after.json["choices"][0]["text"] == expected[0]
        os.kill(engines[1], signal.SIGKILL)
        eventually(lambda: client.get("/healthz").status == 503, 10)
        assert server.process.wait(timeout=30) == 2
        assert "the engine process died while serving" in server.last_errors()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a=cpu", "b=cuda:93"], "--pool b=cuda:93: no such device"),
        (["a=cpu,seqs=0"], "'a=cpu,seqs=0' is not allowed (seqs: Input should be"),
        (["a=cpu", "a=cpu"], "two pools are named a"),
    ],
)
def test_a_pool_that_cannot_be_is_refused_at_start(words: list[str], message: str) -> None:
    """Exit status 2 and one line; the engines that had started are gone."""
    command = [sys.executable, "-m", "harness.cli.main", "serve", "--port", "0"]
    command += [part for word in words for part in ("--pool", word)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr
