"""Prints the error of TTFT, with receive stamps and without, against the truth server's own record.

    python -m tools.stamp_error                1, 8, 32 and 64 streams, free and busy client

All columns of a row come from the same requests of one run: the record keeps the receive stamp, the
time at which the process read the first token, and whether it read it late together with others.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from harness.load.client.rx_timestamp import RxTimestamps
from harness.load.runner import load_environment
from harness.load.session import reopen
from harness.metrics.stamp_error import StampErrors, match_log, stamp_errors
from harness.records.columns import from_table
from harness.records.store import read_rows
from harness.server.truth.process import start_truth

ROOT: Final = Path(__file__).resolve().parents[1]
CLIENTS: Final = {
    "free": ROOT / "locustfiles" / "grid.py",
    "busy": ROOT / "tools" / "busy_locustfile.py",
}
STREAMS: Final = (1, 8, 32, 64)
QUANTILES: Final = (0.5, 0.99, 1.0)
LIMIT_S: Final = 300
GAP_S: Final = 0.005
LAW: Final = """
schema = 1
name = "streams"
title = "First token after some 20 ms, then one at a time"
ttft = {{ base_s = 0.02, noise = {{ cv = 0.3 }} }}
itl = {{ base_s = {gap_s} }}
truth = {{ found = ["none"] }}
"""
SCENARIO: Final = """
schema = 1
name = "streams"
title = "Many streams at once"
target = {{ model = "truth" }}
prompt_tokens = 32
load = {{ requests_per_cell = {n}, segments_per_cell = 2, warmup_requests = {warmup} }}
output = {{ tokens = 8 }}
axes = {{ concurrency = {streams} }}
analysis = {{ axis = "concurrency" }}
"""


def measure(
    client: Path, folder: Path, streams: Sequence[int], n_requests: int, gap_s: float = GAP_S
) -> dict[int, StampErrors]:
    """One run with this locustfile; errors by number of streams."""
    law, scenario = folder / "law.toml", folder / "streams.toml"
    law.write_text(LAW.format(gap_s=gap_s), encoding="utf-8")
    text = SCENARIO.format(n=n_requests, warmup=max(streams), streams=list(streams))
    scenario.write_text(text, encoding="utf-8")
    with start_truth(law) as server:
        command = [
            sys.executable, "-m", "locust", "-f", str(client), "--headless", "--only-summary",
            "--scenario", str(scenario), "--runs-dir", str(folder / "runs"), "--host", server.url,
        ]  # fmt: skip
        done = subprocess.run(  # noqa: S603  our own interpreter and paths
            command, cwd=folder, env=load_environment(), capture_output=True, text=True,
            stdin=subprocess.DEVNULL, check=False, timeout=LIMIT_S,
        )  # fmt: skip
        log = server.log()
    paths = list((folder / "runs").glob("*"))
    if len(paths) != 1:
        raise RuntimeError(f"no run:\n{done.stdout}\n{done.stderr}")
    session = reopen(paths[0])
    records = from_table(read_rows(session.run).table)
    pairs = [pair for pair in match_log(session.plan, records, log) if not pair[0].is_warmup]
    return {
        n: stamp_errors(pair for pair in pairs if session.plan.cell(pair[0].cell).concurrency == n)
        for n in streams
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=400, help="requests per row")
    options = parser.parse_args()
    stamps = RxTimestamps.detect()  # held open, so that the system keeps stamping from run to run
    if not stamps.is_kernel:
        sys.exit(f"no receive stamps here: {stamps.reason}")
    print("P50, P99 and largest error of TTFT in ms.\n")
    print("| client | streams | requests | by the read | by the stamp | marked late | the rest |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, client in CLIENTS.items():
        with tempfile.TemporaryDirectory() as folder:
            found = measure(client, Path(folder), STREAMS, options.requests)
        for n, errors in found.items():
            parts = errors.read_s, errors.stamped_s, errors.stamped_s[~errors.is_late]
            read, stamped, rest = map(_shown, parts)
            late = f"{errors.is_late.mean():.0%}"
            row = f"| {name} | {n} | {errors.read_s.size} | {read} | {stamped} | {late} | {rest} |"
            print(row, flush=True)


def _shown(seconds: "np.ndarray") -> str:
    if not seconds.size:
        return "-"
    values = np.quantile(seconds * 1e3, QUANTILES, method="higher")
    return ", ".join(f"{value:.3f}" for value in values)


if __name__ == "__main__":
    main()
