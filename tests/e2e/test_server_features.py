"""Accelerated features and planted faults, as users reach them."""

import statistics
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.server.accel import EXACT_FEATURES, LOSSY_FEATURES
from harness.server.options import ServerOptions
from harness.server.process import RunningServer, start_server
from tests.e2e.plain_client import WORDS, Client, ask

pytestmark = pytest.mark.e2e

FAULTS = "attention:200%,stall:60ms@200ms,gc:20ms@300ms,exhaust:60ms@400ms,alloc:1/5"
CACHED = "prefix_cache,paged_kv"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server without faults."""
    with start_server(ServerOptions(port=0)) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: RunningServer) -> Client:
    return Client(server.url)


def test_a_repeated_prompt_comes_from_the_cache(client: Client) -> None:
    """All full blocks but the last token are told as cached; the answer stays the same."""
    body = ask(prompt=WORDS * 6)
    plain = client.post("/v1/completions", body)
    assert client.value("mc_accel_kv_kept_tokens") == 0
    first, second = (client.post("/v1/completions", body, accel=CACHED) for _ in range(2))
    n_prompt = second.json["usage"]["prompt_tokens"]
    cached = [
        reply.json["usage"]["prompt_tokens_details"]["cached_tokens"] for reply in (first, second)
    ]
    assert cached == [0, (n_prompt - 1) // 16 * 16]
    assert client.value("mc_accel_prefix_hit_tokens_total") == cached[1]
    assert client.value("mc_accel_kv_kept_tokens") >= cached[1]
    assert second.headers["x-mc-features"] == CACHED
    texts = {reply.json["choices"][0]["text"] for reply in (plain, first, second)}
    assert len(texts) == 1
    # The baseline takes the arena, so nothing is left to find.
    client.post("/v1/completions", body)
    assert client.value("mc_accel_kv_kept_tokens") == 0
    assert client.value("mc_accel_kv_held_tokens") == 0


@pytest.mark.parametrize("accel", [*(set(EXACT_FEATURES) - {"prefix_cache"}), CACHED, "true"])
def test_features_answer_alike_one_by_one_and_together(client: Client, accel: str) -> None:
    """Requests of one feature set, sent at once, give the baseline's greedy answers."""
    bodies = [ask(prompt=f"{WORDS * 3}Chapter {number}. {WORDS * number}") for number in range(5)]

    def text(body: dict[str, Any], accel: str) -> str:
        reply = client.post("/v1/infer", body, accel=accel)
        assert reply.headers["x-mc-path"] == ("baseline" if accel == "false" else "accelerated")
        return str(reply.json["text"])

    alone = [text(body, "false") for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        together = list(pool.map(text, bodies, [accel] * len(bodies)))
    assert together == alone


@pytest.mark.parametrize("name", LOSSY_FEATURES)
def test_lossy_features_are_told_and_run_only_when_named(client: Client, name: str) -> None:
    """The answer says exactly what was named; `true` has none; the models route lists them."""
    for accel, features in ((name, [name]), (f"true,{name}", [*EXACT_FEATURES, name])):
        reply = client.post("/v1/infer", ask(), accel=accel)
        assert reply.headers["x-mc-features"] == ",".join(features)
        assert reply.json["timings"]["features"] == features
        assert reply.json["n_output_tokens"] > 0
    assert name not in client.post("/v1/infer", ask(), accel="true").headers["x-mc-features"]
    (model,) = client.get("/v1/models").json["data"]
    assert model["accel_lossy_features"] == list(LOSSY_FEATURES)


def test_a_prefix_cache_without_blocks_is_refused(client: Client) -> None:
    """`prefix_cache` alone is answered 400 with what to write instead."""
    reply = client.post("/v1/infer", ask(), accel="prefix_cache")
    assert reply.status == 400
    assert "prefix_cache,paged_kv" in reply.json["error"]["message"]


def test_planted_faults_are_told_and_charged_to_their_phases(client: Client) -> None:
    """The log and /metrics name them, the account shows them, and still adds up."""
    body = ask(max_tokens=48)  # so many that the work outlasts every period

    def phases(to: Client) -> list[dict[str, float]]:
        timings = [to.post("/v1/infer", body).json["timings"] for _ in range(12)]
        for each in timings:
            assert abs(each["unattributed_s"]) <= 0.02 * each["wall_s"]
        return [each["phases"] for each in timings]

    options = ServerOptions.model_validate({"port": 0, "faults": FAULTS})
    with start_server(options) as broken:
        faulty = Client(broken.url)
        for word in FAULTS.split(","):
            assert faulty.value("mc_accel_fault_info", fault=word) == 1
        slowed, plain = phases(faulty), phases(client)
        assert f"faults are planted: {FAULTS}" in broken.last_errors()
    assert sum(each["stall"] for each in slowed) >= 0.06
    assert sum(each["gc"] for each in slowed) >= 0.02
    assert sum(each["kv_wait"] for each in slowed) >= 0.06
    assert sum(each["stall"] + each["kv_wait"] for each in plain) == 0
    # Three times as long by the plan; the feed-forward layers beside it cancel the machine's moods.
    weight = [
        statistics.median(each["attention"] / each["ffn"] for each in group)
        for group in (slowed, plain)
    ]
    assert weight[0] > 1.6 * weight[1]
    assert not [name for name, _ in client.samples() if name == "mc_accel_fault_info"]


def test_a_bad_fault_is_refused_at_the_command_line() -> None:
    """An unknown word ends with exit status 2 and the list of what is allowed."""
    command = [sys.executable, "-m", "harness.cli.main", "serve", "--faults", "warp:9%"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "--faults" in result.stderr
    assert "'warp:9%' is not allowed; allowed is a comma list of PHASE:X%" in result.stderr


@pytest.mark.parametrize("accel", ["false", "true"])
def test_planted_errors_and_a_store_without_connections(accel: str) -> None:
    """Every third request is a 500; rows wait while all connections are taken, and are written."""
    options = ServerOptions.model_validate(
        {"port": 0, "faults": "connections:150ms@200ms,error:1/3,garbage:40MB/s,gc:30ms@150ms"}
    )
    with start_server(options) as broken:
        faulty = Client(broken.url)
        replies = [faulty.post("/v1/infer", ask(), accel=accel) for _ in range(18)]
        assert [reply.status for reply in replies] == [200, 200, 500] * 6
        assert replies[2].json["error"]["code"] == "planted"
        assert "error:1/3" in replies[2].json["error"]["message"]
        assert faulty.value("mc_accel_refused_total", status="500") == 6
        timings = [reply.json["timings"] for reply in replies if reply.status == 200]
        assert max(each["phases"]["store"] for each in timings) > 0.05
        assert max(each["phases"]["gc"] for each in timings) > 0.025
        for each in timings:
            assert abs(each["unattributed_s"]) <= 0.02 * each["wall_s"]
        assert faulty.value("mc_accel_journal_failures_total") == 0
    assert broken.stop() == 0
