"""Starts Locust on a scenario in a process of its own."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import pytest

from harness.load import runner
from tests.e2e.truth_process import scenario_values, to_toml

ROOT = Path(__file__).resolve().parents[2]
GRID = ROOT / "locustfiles" / "grid.py"
LIMIT_S = 90


class Locust:
    """One Locust process on a scenario."""

    def __init__(
        self,
        folder: Path,
        url: str | None,
        *options: str,
        values: dict[str, Any] | None = None,
        locustfile: Path = GRID,
        by_environment: bool = False,
        with_report: bool = True,
    ) -> None:
        """Without a report it ends sooner, as under `tailbreak run`, which makes its own."""
        self.folder = folder
        scenario = folder / "scenario.toml"
        scenario.write_text(to_toml(values or scenario_values()))
        ours = ["--scenario", str(scenario), "--runs-dir", str(folder / "runs")]
        variables = {"TAILBREAK_SCENARIO": ours[1], "TAILBREAK_RUNS_DIR": ours[3]}
        if not by_environment:
            variables = {}
        if not with_report:
            variables[runner.PARENT_VARIABLE] = str(os.getpid())
        command = [
            sys.executable, "-m", "locust", "-f", str(locustfile), "--only-summary",
            *([] if by_environment else ours), *(["--host", url] if url else []), *options,
        ]  # fmt: skip
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, text=True, start_new_session=True,
            env={**runner.load_environment(), "COLUMNS": "200", **variables},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def to_end(self) -> tuple[int, str]:
        """Exit code and output."""
        try:
            output, _ = self.process.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            self.signal_all(signal.SIGKILL)
            output, _ = self.process.communicate()
            pytest.fail(f"Locust did not end within {LIMIT_S} s:\n{output}")
        return self.process.returncode, output

    def signal_all(self, number: signal.Signals) -> None:
        """As a terminal does: the signal goes to Locust and to the workers it forked."""
        os.killpg(self.process.pid, number)

    def __enter__(self) -> Self:
        """Leave no process behind, however the block ends."""
        return self

    def __exit__(self, *_error: object) -> None:
        """Kill what still runs."""
        if self.process.poll() is None:
            self.signal_all(signal.SIGKILL)
        self.process.communicate()

    def says(self, words: str) -> None:
        """Read its output until a line with these words."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if words in line:
                return
        pytest.fail(f"it ended without a word of {words!r}")

    @property
    def workers(self) -> list[int]:
        """Processes that it forked."""
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in path.read_text().split()]

    @property
    def run_folders(self) -> list[Path]:
        """The run folders it made, oldest first."""
        return [path.parent for path in sorted((self.folder / "runs").glob("*/run.json"))]

    @property
    def run_folder(self) -> Path:
        """The one run folder it made."""
        (path,) = self.run_folders
        return path


def run_locust(
    folder: Path, url: str | None, *options: str, **more: Any
) -> tuple[int, str, Locust]:
    """A headless run to its end: exit code, output, process."""
    process = Locust(folder, url, "--headless", *options, **more)
    code, output = process.to_end()
    return code, output, process


def wait_for(condition: Callable[[], bool], limit_s: float = 40.0) -> None:
    """Until it holds; fails the test when it does not within the limit."""
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, "nothing happened in time"
        time.sleep(0.05)


def free_port() -> int:
    """A port of the loopback interface that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port: int = sock.getsockname()[1]
        return port
