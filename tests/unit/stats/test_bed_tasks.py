import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.stats.bed.__main__ import main
from harness.stats.bed.peers import PEERS
from harness.stats.bed.results import Results
from harness.stats.bed.runner import run_task
from harness.stats.bed.table import as_rows
from harness.stats.bed.task import Case, Task, add, score
from harness.stats.bed.tasks import TASKS


def _coin(case: Case, rng: np.random.Generator) -> Mapping[str, float]:
    return {"heads": rng.random() < float(case[0])}


COIN = Task(
    name="coin", scores="a coin", head=("p",), cases=((0.2,), (0.9,)), shares=("heads", "never"),
    means=(), replicate=_coin, replicates=400, half_width=0.08, fast=20,
)  # fmt: skip


def _always_time() -> bool:
    return False


def test_ranges_add_up() -> None:
    """Scoring 0 to 30 at once or in two ranges gives the same sums."""
    whole = score(COIN, (0.2,), range(30))
    assert whole == add([score(COIN, (0.2,), range(7)), score(COIN, (0.2,), range(7, 30))])
    assert 0 < whole["heads"][0] < whole["heads"][1] == 30


def test_replicates_are_added_until_the_share_is_known(tmp_path: Path) -> None:
    """A share near a half end takes fewer replicates; what never came up is not waited for."""
    results = Results(tmp_path / "r.jsonl", "code")
    run_task(COIN, results, is_over=_always_time)
    n = {case: results.of("coin", case)[0] for case in COIN.cases}
    assert n[(0.9,)] < n[(0.2,)] < COIN.replicates
    found = {(row["p"], row["column"]): row for row in as_rows(COIN, results)}
    assert found[0.2, "heads"]["high"] - found[0.2, "heads"]["low"] <= 2 * COIN.half_width
    assert found[0.2, "never"]["value"] is None
    assert found[0.2, "heads"]["low"] <= 0.2 <= found[0.2, "heads"]["high"]


def test_no_time_still_gives_every_case_a_first_batch(tmp_path: Path) -> None:
    """With the time used up before the begin, each case is run once and no more."""
    results = Results(tmp_path / "r.jsonl", "code")
    run_task(COIN, results, is_over=lambda: True)
    assert [results.of("coin", case)[0] for case in COIN.cases] == [10, 10]


def test_a_torn_line_and_other_code_do_not_count(tmp_path: Path) -> None:
    """What a kill left half written is run again; results of other code are left alone."""
    path = tmp_path / "r.jsonl"
    results = Results(path, "code")
    results.append("coin", (0.2,), range(10), {"heads": (2.0, 10)})
    path.write_bytes(path.read_bytes() + b'{"code": "code", "seed": 1, "task": "co')
    again = Results(path, "code")
    assert again.of("coin", (0.2,)) == (10, {"heads": (2.0, 10)})
    again.append("coin", (0.2,), range(10, 20), {"heads": (3.0, 10)})
    assert Results(path, "code").of("coin", (0.2,)) == (20, {"heads": (5.0, 20)})
    assert Results(path, "other").of("coin", (0.2,)) == (0, {})


def test_a_range_counts_once(tmp_path: Path) -> None:
    """Two runs that kept the same range in one file do not count it twice."""
    path = tmp_path / "r.jsonl"
    for results in (Results(path, "code"), Results(path, "code")):
        results.done.clear()
        results.append("coin", (0.2,), range(10), {"heads": (2.0, 10)})
    assert path.read_bytes().count(b'"first": 0') == 2
    assert Results(path, "code").of("coin", (0.2,)) == (10, {"heads": (2.0, 10)})


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    """After kill -9 the lines that were there stay first, and the figures are those of one run."""
    keep = tmp_path / "killed.jsonl"
    command = [sys.executable, "-m", "harness.stats.bed", "starts", "--fast", "--keep", str(keep)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not (keep.exists() and keep.read_bytes().count(b"\n") > 2) and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL
    before = keep.read_bytes()
    assert 0 < before.count(b"code") < len(TASKS["starts"].cases)
    rows = [_figures(name, keep, tmp_path) for name in ("resumed", "again")]
    whole = _figures("whole", tmp_path / "whole.jsonl", tmp_path)
    assert rows[0] == rows[1] == whole
    assert keep.read_bytes().startswith(before)
    assert keep.read_bytes().count(b"code") == len(TASKS["starts"].cases)


def _figures(name: str, keep: Path, folder: Path) -> object:
    out = folder / f"{name}.json"
    assert main(["starts", "--fast", "--keep", str(keep), "--json", str(out)]) == 0
    return json.loads(out.read_text())


def test_a_task_sees_a_broken_estimator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the effective number ours is as wrong as the plain binomial where requests bunch."""
    case = ("log-normal 0.6", 0.9, 4000)
    sound = score(TASKS["intervals"], case, range(60))
    assert sound["tailbreak"][0] >= 50 > sound["binomial"][0]
    task = "harness.stats.bed.tasks.intervals"
    monkeypatch.setattr(f"{task}.SEGMENTS", 1)
    monkeypatch.setattr(f"{task}.indicator_ess", lambda parts, _q: _Size(float(parts[0].size)))
    broken = score(TASKS["intervals"], case, range(60))
    assert broken["tailbreak"] == broken["binomial"] == sound["binomial"]


class _Size:
    def __init__(self, n_effective: float) -> None:
        self.n_effective = n_effective


@pytest.mark.parametrize("name", PEERS)
def test_peers_hold_where_requests_are_independent(name: str) -> None:
    """Each peer holds the median of 2,000 independent values at its nominal level (alpha 1e-4)."""
    rng = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        low, high = PEERS[name](rng.lognormal(0, 0.5, 2000), 0.5, rng)
        held += low <= 1 <= high
    assert held >= 176


def test_normal_ranks_have_no_upper_bound_on_few_values() -> None:
    """Of 300 values no rank bounds P99 from above; of 1,000 it is the 998th."""
    rng = np.random.default_rng(0)
    assert PEERS["normal ranks"](np.arange(1.0, 301), 0.99, rng)[1] == np.inf
    assert PEERS["normal ranks"](np.arange(1.0, 1001), 0.99, rng) == (983.0, 998.0)


def test_bootstrap_in_closed_form_is_the_drawn_one() -> None:
    """Bounds of 20,000 drawn resamples lie within a rank of the closed form."""
    rng = np.random.default_rng(8)
    values = np.arange(1.0, 401)
    drawn = np.sort(rng.integers(1, 401, (20_000, 400)), axis=1)[:, 395]
    want = np.quantile(drawn, [0.025, 0.975])
    np.testing.assert_allclose(PEERS["bootstrap"](values, 0.99, rng), want, atol=1)


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_every_column_of_a_task_comes_up(task: Task, tmp_path: Path) -> None:
    """No share and no mean is asked for that no case gives."""
    few = replace(task, cases=task.cases[:2], fast=10)
    results = Results(tmp_path / "r.jsonl", "code")
    run_task(few, results, is_over=_always_time, is_fast=True)
    found = {row["column"] for row in as_rows(few, results) if row["value"] is not None}
    assert found == {*task.shares, *task.means}


def test_bad_options_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """An unknown task or no minutes is refused with exit code 2 and what is allowed."""
    for arguments, told in ((["nothing"], "intervals"), (["--minutes", "0"], "above 0")):
        with pytest.raises(SystemExit) as refused:
            main(arguments)
        assert refused.value.code == 2
        assert told in capsys.readouterr().err
