"""Prints P99 of healthy times and of a planted incident, and what `tailbreak incident` says.

    python -m tools.incident_shape [--pairs N] [--seconds S]

One server process after the other at one address, scraped by a real Prometheus. Each healthy time
is then the fault of the one before it: no symptom may be named there.
"""

import argparse
import json
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

from tests.cli_process import command
from tests.planted_incident import Served, serve
from tests.prometheus_process import Prometheus, prometheus

FAULTS: Final = "garbage:60MB/s,gc:187ms@2440ms,connections:200ms@2s,error:1/21"
SCRAPE_S: Final = 0.5
P99: Final = (
    "histogram_quantile(0.99, sum by (le) (increase(mc_accel_infer_duration_seconds_bucket[{}s])))"
)


def main() -> None:
    """Serve, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--pairs", type=int, default=5, help="healthy pairs (default 5)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of each time (default 15)")
    asked = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as holder:
        folder = Path(holder)
        with prometheus(folder, {"server": f"127.0.0.1:{port}"}, scrape_s=SCRAPE_S) as running:
            times = [serve(port, "", asked.seconds)]
            for faults in (*[""] * asked.pairs, FAULTS):
                times.append(serve(port, faults, asked.seconds))
                _print(running, folder / "found.json", *times[-2:], faults=faults)


def _print(running: Prometheus, out: Path, normal: Served, fault: Served, *, faults: str) -> None:
    """A line: what was planted, P99 before and then, and what is named."""
    found = _incident(running, out, normal, fault)
    tails = " -> ".join(f"{1e3 * _p99_s(running, each):.0f}" for each in (normal, fault))
    names = ", ".join(each["name"] for each in found["symptoms"]) or "no symptom"
    print(f"{faults or 'healthy'}: P99 {tails} ms; {names}", flush=True)


def _p99_s(running: Prometheus, served: Served) -> float:
    """P99 of the whole inference by the server's own histogram, from the middle of its scrapes."""
    start, end = served.span
    return running.value(P99.format(int(end - start - 2)), at=end - SCRAPE_S)


def _incident(running: Prometheus, out: Path, normal: Served, fault: Served) -> dict[str, Any]:
    words = [
        word
        for name, each in (("--normal", normal), ("--fault", fault))
        for word in (name, "{:.1f}..{:.1f}".format(*each.span))
    ]
    asked = command("incident", "--prometheus", running.url, *words, "--json", str(out))
    subprocess.run(asked, check=True, capture_output=True, timeout=120)  # noqa: S603  our own
    found: dict[str, Any] = json.loads(out.read_text())
    return found


if __name__ == "__main__":
    main()
