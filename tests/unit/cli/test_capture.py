"""`tailbreak capture` on a real endpoint: a planted jump makes one snapshot, noise makes none."""

import _thread
import json
import os
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from harness.base.errors import SetupError
from harness.cli.main import app
from harness.importers import snapshot
from tests.metrics_page import MetricsPage, metrics_page

PAGE = """# TYPE mc_accel_gc_pause_seconds_count counter
mc_accel_gc_pause_seconds_count{{generation="2"}} {i}
# TYPE queue gauge
queue {value}
"""
LAST = 45


@contextmanager
def serving(value: Callable[[int], float]) -> Iterator[MetricsPage]:
    """A page whose gauge is another one at each scrape; at the `LAST` one Ctrl-C comes."""
    numbers = count()

    class Living(MetricsPage):
        @property
        def text(self) -> str:
            i = next(numbers)
            if i == LAST:
                _thread.interrupt_main()
            return PAGE.format(i=i, value=value(i))

        @text.setter
        def text(self, _: str) -> None:
            pass

    with metrics_page() as page:
        page.__class__ = Living
        yield page


def capture(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["capture", *arguments], env={"COLUMNS": "200"})


def watch(page: MetricsPage, out: Path, *more: str) -> Result:
    return capture("--url", page.url, "--metric", "queue", "--out", str(out), *more)


def test_a_planted_jump_makes_one_snapshot_with_everything(tmp_path: Path) -> None:
    """From 10 to 14 at the thirtieth scrape: one folder, its numbers, pages before and at it."""
    with serving(lambda i: 14.0 if i >= 30 else 10.0) as page, metrics_page() as gpu:
        gpu.text = 'DCGM_FI_DEV_PCIE_REPLAY_COUNTER{gpu="0"} 3\nDCGM_FI_DEV_GPU_UTIL{gpu="0"} 9\n'
        result = watch(page, tmp_path, "--pid", str(os.getpid()), "--exporter", gpu.url)
    assert result.exit_code == 0, result.output
    assert "1 snapshots" in result.output
    (folder,) = tmp_path.iterdir()
    told = json.loads((folder / "trigger.json").read_text())
    assert (told["baseline"], told["samples"]) == (10, [14, 14, 14])
    assert told["limit"] == pytest.approx(11.5)
    assert told["cost_s"] <= told["period_s"] * 0.01
    assert told["before_unix_ns"] < told["now_unix_ns"] <= told["parts"][0]["began_unix_ns"]
    assert [part["error"] for part in told["parts"]] == [None] * 7
    assert "queue 10.0" in (folder / "metrics-before.txt").read_text()
    assert "queue 14.0" in (folder / "metrics.txt").read_text()
    assert "generation=2: 29.0 -> 32.0" in (folder / "garbage.txt").read_text()
    assert "GPU_UTIL" in (folder / "exporter.txt").read_text()
    assert (folder / "links.txt").read_text() == (
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER gpu=0: 3.0 -> 3.0\n"
    )
    assert f"Pid:\t{os.getpid()}" in (folder / "process.txt").read_text()


def test_noise_makes_no_snapshot(tmp_path: Path) -> None:
    """Samples that scatter by 30 % are usual for what is watched."""
    rng = np.random.default_rng(3)
    with serving(lambda _: float(10 * rng.lognormal(0, 0.3))) as page:
        result = watch(page, tmp_path)
    assert result.exit_code == 0, result.output
    assert "0 snapshots" in result.output
    assert int(result.output.split(" samples")[0].split()[-1]) > 12, "enough for a jump"
    assert list(tmp_path.iterdir()) == []


def test_the_period_is_measured_and_a_finer_one_refused(tmp_path: Path) -> None:
    """It is printed with what a sample costs; finer than 1 % is an error that says the figure."""
    with serving(lambda _: 1.0) as page:
        result = watch(page, tmp_path, "--seconds", "0")
        refused = watch(page, tmp_path, "--every", "0.001")
    assert "watching queue of" in result.output
    assert "% of a core" in result.output
    assert isinstance(refused.exception, SetupError)
    assert "takes more than 1% of a core" in str(refused.exception)


def test_what_is_not_told_cannot_be_watched(tmp_path: Path) -> None:
    """A name that is not there, a page without latencies, a process that is gone."""
    with serving(lambda _: 1.0) as page:
        for arguments, words in (
            (["--metric", "nothing"], "does not tell nothing; it tells"),
            ([], "does not tell first tokens or whole answers"),
            (["--pid", "999999999"], "no such process"),
        ):
            result = capture("--url", page.url, "--out", str(tmp_path), *arguments)
            assert isinstance(result.exception, SetupError)
            assert words in str(result.exception)


def test_a_part_that_cannot_be_had_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without py-spy, and for a process that is not there."""
    monkeypatch.setattr(snapshot, "_py_spy", lambda: None)
    assert "py-spy is not installed; pip install py-spy" in snapshot.stacks(1)
    assert snapshot.process_files(999_999_999).count("not to be had") == len(snapshot.PROC_FILES)


@pytest.mark.skipif(
    not (Path(sysconfig.get_path("scripts")) / "py-spy").is_file(), reason="py-spy is not installed"
)
def test_stacks_are_those_of_the_process() -> None:
    """The thread that waits is there by the name of its function, or the reason is."""

    def wait_here_to_be_seen() -> None:
        time.sleep(20)

    threading.Thread(target=wait_here_to_be_seen, daemon=True).start()
    text = snapshot.stacks(os.getpid())
    assert "wait_here_to_be_seen" in text or "not to be had: py-spy:" in text


def test_a_server_that_went_away_is_told(tmp_path: Path) -> None:
    """Samples that did not come are counted with the reason, and the watch goes on."""

    def fall(i: int) -> float:
        page.status = 500 if i >= 20 else 200
        return 10.0

    with serving(fall) as page:
        result = watch(page, tmp_path)
    assert result.exit_code == 0, result.output
    assert "times no answer: " in result.output
    assert "HTTP status 500" in result.output
