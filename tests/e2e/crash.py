"""Kills runs at random moments, resumes them, and counts what was lost.

`make crash` kills 30 times and prints the table; `test_crash.py` does a few in every test run. A
chain is one run: started, killed, resumed, killed, ..., and at last resumed to its end. Before each
kill the acknowledgements are read from outside; after it the store, the reports and the truth
server's own log are held against them.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from harness.base.errors import SetupError
from harness.load.session import reopen
from harness.plan.plan import Plan
from harness.records.lock import RunLock
from harness.records.run import RunFolder
from harness.records.shard import read_acknowledgements
from harness.records.store import read_rows
from tests.e2e.locust_process import wait_for
from tests.e2e.truth_process import Truth, scenario_values, to_toml, truth_server

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120.0
Victim = Literal["load", "command", "both"]
Key = tuple[str, int]


@dataclass(frozen=True, kw_only=True)
class Kill:
    """What one `kill -9` did.

    Attributes:
        victim: the load process, the command that started it, or both.
        delay_s: time after the load began to write.
        n_acknowledged: rows acknowledged just before, over all sessions.
        n_rows: rows in the store afterwards.
        n_lost: acknowledged rows that are not in the store.
        n_doubled: rows that are there twice.
        window_s: age of the oldest answer without a row; 0 without any.
        has_said_partial: terminal, report.json, page and exit code all say that the run is partial.
    """

    victim: Victim
    delay_s: float
    n_acknowledged: int
    n_rows: int
    n_lost: int
    n_doubled: int
    window_s: float
    has_said_partial: bool


@dataclass(frozen=True, kw_only=True)
class Chain:
    """One run with its kills.

    Attributes:
        kills: in order.
        n_planned: requests of the plan.
        n_recorded: planned requests with exactly one row at the end.
        n_sent_again: requests that were sent again although their row was in the store.
        n_sent_twice: requests that the server saw more than once: in flight or not yet flushed.
        status: how the run stands at the end.
        has_said_sessions: the final report says in how many sessions the run was made.
    """

    kills: tuple[Kill, ...]
    n_planned: int
    n_recorded: int
    n_sent_again: int
    n_sent_twice: int
    status: str
    has_said_sessions: bool


class Run:
    """A run of the command line in a folder of its own, killed and resumed."""

    def __init__(self, folder: Path, truth: Truth, requests_per_cell: int) -> None:
        self._folder = folder
        self._truth = truth
        values = scenario_values(requests_per_cell=requests_per_cell)
        (folder / "x.toml").write_text(to_toml(values))
        first = ("run", "x.toml", "--target", truth.url, "--runs-dir", "runs")
        self._process = self._start(*first)
        wait_for(lambda: any(folder.glob("runs/*/run.json")), LIMIT_S)
        (self.path,) = (folder / "runs").iterdir()
        self._n_sessions = 1
        self._began_ns = 0
        self.seen: list[tuple[set[Key], Counter[Key]]] = []

    def resume(self) -> None:
        """Start the next session."""
        self._n_sessions += 1
        self._began_ns = time.monotonic_ns()
        self._process = self._start("run", "--resume", str(self.path))

    def kill(self, victim: Victim, delay_s: float) -> Kill:
        """Kill while the load writes, and hold what is left against what was acknowledged."""
        shard = f"session-{self._n_sessions}-*.arrows"
        wait_for(lambda: any(self.path.glob(f"shards/{shard}")), LIMIT_S)
        load = _only_child(self._process.pid)
        time.sleep(delay_s)
        n_acknowledged = acknowledged(self.path)
        for pid in {"load": [load], "command": [self._process.pid]}.get(
            victim, [self._process.pid, load]
        ):
            os.kill(pid, signal.SIGKILL)
        killed_ns = time.monotonic_ns()
        shown, code = self._after(victim)
        rows = read_rows(RunFolder(self.path)).table.select(["session", "segment", "index"])
        keys = [tuple(row.values()) for row in rows.to_pylist()]
        planned = {(segment, index) for _, segment, index in keys if index >= 0}
        log = self.log()
        self.seen.append((planned, Counter(key for key, _ in log)))
        lost = [e for key, e in log if key not in planned and e["arrival_ns"] > self._began_ns]
        ages = [killed_ns - e["done_ns"] for e in lost if 0 < e["done_ns"] < killed_ns]
        return Kill(
            victim=victim,
            delay_s=delay_s,
            n_acknowledged=n_acknowledged,
            n_rows=len(keys),
            n_lost=max(0, n_acknowledged - len(keys)),
            n_doubled=len(keys) - len(set(keys)),
            window_s=max(ages, default=0) / 1e9,
            has_said_partial=self._says_partial(shown, code),
        )

    def finish(self) -> tuple[str, int]:
        """Resume to the end."""
        self.resume()
        return self._outcome()

    def log(self) -> list[tuple[Key, dict[str, Any]]]:
        """The server's entries of planned requests; seed and prompt length name a request."""
        plan = self.plan()
        names = {
            (request.sampling_seed, plan.cell(segment.cell).prompt_tokens): (
                segment.id, request.index,
            )
            for segment in plan.segments
            for request in segment.requests
        }  # fmt: skip
        found = [(names.get((e["seed"], e["n_prompt"])), e) for e in self._truth.log()]
        return [(key, entry) for key, entry in found if key is not None]

    def plan(self) -> Plan:
        """Everything that is intended."""
        return reopen(self.path).whole

    def _start(self, *arguments: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "harness.cli.main", *arguments],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _outcome(self) -> tuple[str, int]:
        shown, _ = self._process.communicate(timeout=LIMIT_S)
        return shown, self._process.returncode

    def _after(self, victim: Victim) -> tuple[str, int]:
        """What is said of the killed run: by the command, or by `tailbreak report` in its place."""
        shown, code = self._outcome()
        wait_for(self._is_free, LIMIT_S)
        if victim == "load":
            return shown, code
        self._process = self._start("report", str(self.path))
        return self._outcome()

    def _is_free(self) -> bool:
        try:
            RunLock(RunFolder(self.path)).release()
        except SetupError:
            return False
        return True

    def _says_partial(self, shown: str, code: int) -> bool:
        if "no request left a record" in shown:  # killed before the first flush: nothing to report
            return code == 5 and "tailbreak run --resume" in shown
        report = json.loads((self.path / "report.json").read_text())
        page = (self.path / "report.html").read_text()
        summary = (self.path / "summary.md").read_text()
        return all(
            [
                code == 5,
                "the run is partial; to finish it: tailbreak run --resume" in shown,
                report["run"]["status"] == "partial",
                ", partial</dd>" in page,
                "(partial)" in summary,
                any("the run is partial" in caveat for caveat in report["caveats"]),
            ]
        )


def acknowledged(run: Path) -> int:
    """Rows that the run's writers have acknowledged, as anyone may read it from outside."""
    logs = [read_acknowledgements(shard) for shard in run.glob("shards/*.arrows")]
    return sum(log[-1].n_rows for log in logs if log)


def crash_chain(
    folder: Path, seed: int, n_kills: int, *, requests_per_cell: int, max_delay_s: float
) -> Chain:
    """One run, killed `n_kills` times at seeded moments, then resumed to its end."""
    rng = np.random.default_rng(seed)
    with truth_server(ttft_ms=40) as truth:
        run = Run(folder, truth, requests_per_cell)
        kills = []
        for number in range(n_kills):
            if number:
                run.resume()
            victim: Victim = get_args(Victim)[rng.integers(3)]
            kills.append(run.kill(victim, float(rng.uniform(0, max_delay_s))))
        run.finish()
        return _judge(run, tuple(kills))


def _judge(run: Run, kills: tuple[Kill, ...]) -> Chain:
    report = json.loads((run.path / "report.json").read_text())
    rows = read_rows(RunFolder(run.path)).table.select(["segment", "index"]).to_pylist()
    counts = Counter((row["segment"], row["index"]) for row in rows if row["index"] >= 0)
    planned = {(s.id, r.index) for s in run.plan().segments for r in s.requests}
    sent = Counter(key for key, _ in run.log())
    return Chain(
        kills=kills,
        n_planned=len(planned),
        n_recorded=sum(counts[key] == 1 and sent[key] > 0 for key in planned),
        n_sent_again=sum(sent[key] > then[key] for keys, then in run.seen for key in keys),
        n_sent_twice=sum(n > 1 for n in sent.values()),
        status=RunFolder(run.path).read_json("run.json")["status"],
        has_said_sessions=any(
            f"made in {len(kills) + 1} sessions" in caveat for caveat in report["caveats"]
        ),
    )


def _only_child(parent: int) -> int:
    (child,) = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return int(child)


def lines_of(chains: list[Chain]) -> Iterator[str]:
    """The table of all kills, then each chain's end."""
    yield "chain  victim   after s  acknowledged   rows  lost  doubled  window s  said partial"
    for number, chain in enumerate(chains):
        for kill in chain.kills:
            yield (
                f"{number:5}  {kill.victim:7} {kill.delay_s:8.2f} {kill.n_acknowledged:13} "
                f"{kill.n_rows:6} {kill.n_lost:5} {kill.n_doubled:8} {kill.window_s:9.2f}  "
                f"{'yes' if kill.has_said_partial else 'NO'}"
            )
    for number, chain in enumerate(chains):
        yield (
            f"chain {number}: {chain.n_recorded} of {chain.n_planned} planned requests have one "
            f"row; {chain.n_sent_again} sent again although recorded, {chain.n_sent_twice} seen "
            f"twice by the server; {chain.status}"
        )
    kills = [kill for chain in chains for kill in chain.kills]
    yield (
        f"{len(kills)} kills: {sum(kill.n_acknowledged for kill in kills)} rows acknowledged, "
        f"{sum(kill.n_lost for kill in kills)} lost, {sum(kill.n_doubled for kill in kills)} "
        f"doubled; longest loss window {max(kill.window_s for kill in kills):.2f} s"
    )


def is_clean(chain: Chain) -> bool:
    """Whether nothing was lost, doubled, sent in vain or kept quiet."""
    return all(
        [
            chain.n_recorded == chain.n_planned,
            chain.n_sent_again == 0,
            chain.status == "complete",
            chain.has_said_sessions,
            *(kill.n_lost == kill.n_doubled == 0 for kill in chain.kills),
            *(kill.has_said_partial for kill in chain.kills),
        ]
    )


def main(n_chains: int = 6, n_kills: int = 5) -> None:
    """Print the table; exit 1 when anything was lost."""
    chains = []
    for seed in range(n_chains):
        with tempfile.TemporaryDirectory() as folder:
            chain = crash_chain(Path(folder), seed, n_kills, requests_per_cell=600, max_delay_s=3.0)
        chains.append(chain)
        sys.stderr.write(f"chain {seed} done\n")
    sys.stdout.write("\n".join([*lines_of(chains), ""]))
    sys.exit(not all(map(is_clean, chains)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
