"""A real Prometheus (Debian package) for tests: started on a free port, stopped by process id."""

import json
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

needs_prometheus = pytest.mark.skipif(
    shutil.which("prometheus") is None or shutil.which("promtool") is None,
    reason="prometheus and promtool are not installed (Debian package prometheus)",
)
START_LIMIT_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Prometheus:
    """One that runs.

    Attributes:
        url: its API, without a slash at the end.
        folder: its configuration and its data (`data/`).
    """

    url: str
    folder: Path

    def get(self, path: str, **query: str) -> Any:
        """The `data` of an API answer; an error is an AssertionError with Prometheus's text."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                value = json.load(answer)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from error
        assert value["status"] == "success", value
        return value["data"]

    def query(self, promql: str, at: float | None = None) -> list[dict[str, Any]]:
        """Series of an instant query: `metric` and `value` [time, text] each."""
        given = {} if at is None else {"time": repr(at)}
        result: list[dict[str, Any]] = self.get("query", query=promql, **given)["result"]
        return result

    def value(self, promql: str, at: float | None = None) -> float:
        """The one value of an instant query."""
        (series,) = self.query(promql, at)
        return float(series["value"][1])

    def wait_for(self, promql: str, within_s: float = 30.0) -> list[dict[str, Any]]:
        """Series of a query, as soon as it has any."""
        began = time.monotonic()
        while not (found := self.query(promql)):
            assert time.monotonic() - began < within_s, f"no series of {promql}"
            time.sleep(0.1)
        return found


@contextmanager
def prometheus(
    folder: Path,
    targets: dict[str, str],
    *,
    rules: Sequence[Path] = (),
    scrape_s: float = 0.2,
    options: Sequence[str] = (),
) -> Iterator[Prometheus]:
    """Scrape `targets` (job name to host:port[/path][?query]) while the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    interval = f"{int(scrape_s * 1000)}ms"
    config = {
        "global": {
            "scrape_interval": interval, "scrape_timeout": interval,
            "evaluation_interval": interval,
        },
        "rule_files": [str(path.resolve()) for path in rules],
        "scrape_configs": [_job(name, address) for name, address in targets.items()],
    }  # fmt: skip
    (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "prometheus", f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                "--enable-feature=exemplar-storage", *options,
            ],
            stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        running = Prometheus(url=f"http://127.0.0.1:{port}", folder=folder)
        _await_ready(running, process)
        _await_targets(running, len(targets))
        yield running
    finally:
        process.terminate()
        process.wait(timeout=30)


def _job(name: str, address: str) -> dict[str, Any]:
    place, _, query = address.partition("?")
    host, _, path = place.partition("/")
    return {
        "job_name": name,
        "metrics_path": "/" + (path or "metrics"),
        "params": urllib.parse.parse_qs(query),
        "static_configs": [{"targets": [host]}],
    }


def promtool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run promtool; its exit code and output are the caller's to judge."""
    return subprocess.run(
        ["promtool", *arguments], input=text, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip


def _await_targets(running: Prometheus, n_targets: int) -> None:
    """Prometheus takes its targets up five seconds after its start: a short run would be over."""
    began = time.monotonic()
    while len(running.get("targets")["activeTargets"]) < n_targets:
        assert time.monotonic() - began < START_LIMIT_S, "its targets were not taken up"
        time.sleep(0.05)


def _await_ready(running: Prometheus, process: "subprocess.Popen[bytes]") -> None:
    began = time.monotonic()
    while True:
        log = running.folder / "prometheus.log"
        assert process.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"{running.url}/-/ready", timeout=5):
                return
        except OSError:
            assert time.monotonic() - began < START_LIMIT_S, log.read_text()
            time.sleep(0.1)
