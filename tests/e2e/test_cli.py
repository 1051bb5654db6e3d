import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.cli_process import command
from tests.small_server import serving

pytestmark = pytest.mark.e2e

TINY = """
schema = 1
name = "tiny-run"
title = "Tiny"
seed = 3

[load]
concurrency = 2
requests_per_cell = 12
segments_per_cell = 2
warmup_requests = 2

[output]
tokens = 4

[axes]
prompt_tokens = [32, 48, 64, 96, 128]
accelerated = [false, true]
"""


def tailbreak(*arguments: str, cwd: Path, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    """The CLI as a user runs it, in another folder."""
    return subprocess.run(
        command(*arguments),
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path.cwd()), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )


def write(folder: Path, text: str) -> str:
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def answering(status: int, every: int = 1) -> AbstractContextManager[str]:
    """A target that is up and lists a model, and fails every n-th generation with this status."""
    count = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            self._say(200, b'{"object":"list","data":[{"id":"tiny"}]}', "application/json")

        def do_POST(self) -> None:
            nonlocal count
            self.rfile.read(int(self.headers["content-length"]))
            if not self.path.startswith("/v1/chat"):
                self._say(404, b"{}", "application/json")
                return
            count += 1
            if count % every == 0:
                self._say(status, b'{"error":{"message":"planted"}}', "application/json")
                return
            chunk = (
                b'data: {"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":null}]}\n\n'
            )
            end = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\n\n'
            self._say(200, chunk * 4 + end + b"data: [DONE]\n\n", "text/event-stream")

        def _say(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return serving(Handler)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """One small run on the bundled server: its folder and what the terminal showed."""
    folder = tmp_path_factory.mktemp("run")
    text = f"fidelity = true\n{TINY}"
    done = tailbreak("run", write(folder, text), "--runs-dir", "runs", cwd=folder, timeout=300)
    assert done.returncode in (0, 5), done.stderr + done.stdout
    (run,) = (folder / "runs").iterdir()
    return run, done.stdout


def test_a_run_leaves_its_whole_folder(finished: tuple[Path, str]) -> None:
    """Scenario, plan, environment, rows and three reports, and nothing half-written."""
    run, shown = finished
    names = {path.name for path in run.iterdir()}
    assert {
        "scenario.json", "plan.json", "environment.json", "run.json", "client.json",
        "requests.parquet", "report.json", "report.html", "summary.md", "fidelity.json",
    } <= names  # fmt: skip
    assert not [name for name in names if name.endswith(".part")]
    assert "report.html" in shown
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert report["run"]["status"] == "complete"
    assert [cell["n"] for cell in report["cells"]] == [12] * 10
    assert report["validity"]["prompt_length_exact_share"] == 1.0
    assert report["validity"]["output_length_exact_share"] == 1.0
    assert all(bool(cell["features"]) == cell["factors"]["accelerated"] for cell in report["cells"])


def test_sets_of_features_run_as_asked_and_leave_a_ledger(tmp_path: Path) -> None:
    """The server confirms each list; the terminal prints a row for each set and what it adds."""
    asked = '[false, "paged_kv", "prefix_cache,paged_kv", true]'
    text = TINY.partition("[axes]")[0] + f"[axes]\naccelerated = {asked}\n"
    text += '[analysis]\naxis = "accelerated"\n'
    done = tailbreak("run", write(tmp_path, text), "--runs-dir", "runs", cwd=tmp_path)
    assert done.returncode in (0, 5), done.stderr + done.stdout
    (run,) = (tmp_path / "runs").iterdir()
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    cells = {cell["factors"]["accelerated"]: set(cell["features"]) for cell in report["cells"]}
    assert cells[False] == set()
    assert cells["paged_kv"] == {"paged_kv"}
    assert cells["paged_kv,prefix_cache"] == {"paged_kv", "prefix_cache"} < cells[True]
    assert not any("do not confirm" in caveat for caveat in report["caveats"])
    rows = [(row["features"], row["over"]) for row in report["comparison"]["ledger"]]
    assert rows == [
        ("paged_kv", False),
        ("paged_kv,prefix_cache", False),
        ("paged_kv,prefix_cache", "paged_kv"),
        (True, False),
        (True, "paged_kv,prefix_cache"),
    ]
    assert "over paged_kv + prefix_cache" in done.stdout
    assert "time over the baseline's" in done.stdout


def test_a_set_that_the_server_does_not_have_fails_its_cell_alone(tmp_path: Path) -> None:
    """An unknown feature is refused by the server: those requests failed, with its words."""
    text = TINY.partition("[axes]")[0] + '[axes]\naccelerated = [false, "no_such_thing"]\n'
    text += '[analysis]\naxis = "accelerated"\n'
    done = tailbreak("run", write(tmp_path, text), "--runs-dir", "runs", cwd=tmp_path)
    assert done.returncode == 1, done.stderr + done.stdout
    assert "12 of 24 requests failed" in done.stdout


def test_a_report_is_made_again_bit_for_bit(finished: tuple[Path, str]) -> None:
    """`tailbreak report` needs no server and gives the same bytes."""
    run, _ = finished
    before = {name: (run / name).read_bytes() for name in ("report.json", "report.html")}
    done = tailbreak("report", str(run), cwd=run)
    assert done.returncode in (0, 5), done.stderr
    assert {name: (run / name).read_bytes() for name in before} == before


def test_phases_of_every_request_add_up(finished: tuple[Path, str]) -> None:
    """Server phases cover the server's own wall time within 2 %, TTFT and whole alike."""
    from harness.records.frame import to_frame
    from harness.records.run import RunFolder
    from harness.records.store import read_rows

    rows = to_frame(read_rows(RunFolder.open(finished[0])))
    for phases, wall in (("phases", "server_e2e_s"), ("ttft_phases", "server_ttft_s")):
        sums = rows[phases].map(lambda split: sum(split.values()))
        assert ((sums / rows[wall] - 1).abs() < 0.02).all(), phases
    seen = (rows["first_token_ns"] - rows["sent_ns"]) / 1e9
    assert (rows["server_ttft_s"] < seen + 0.001).mean() > 0.98, "the server's part is a part"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (TINY.replace("[load]", "[load]\nconcurency = 2"), "load.concurency: got an unknown key"),
        (TINY.partition("[axes]")[0] + "[axes]\n", "axes: the grid is empty"),
        (TINY.replace("tokens = 4", "tokens = 0"), "output.tokens: got 0, allowed"),
    ],
)
def test_a_bad_scenario_is_refused_before_anything_starts(
    tmp_path: Path, text: str, said: str
) -> None:
    """Exit 2, the key path and what is allowed; no run folder is made."""
    done = tailbreak("run", write(tmp_path, text), "--runs-dir", "runs", cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


def test_an_unreachable_target_is_said(tmp_path: Path) -> None:
    """Exit 2, with the URL and what to do."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        done = tailbreak("run", write(tmp_path, TINY), "--target", url, cwd=tmp_path)
    assert done.returncode == 2
    assert url in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    """Exit 2, with the port and the option that chooses another."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = tailbreak("serve", "--port", port, cwd=tmp_path)
    assert done.returncode == 2
    assert port in done.stderr
    assert "--port" in done.stderr


def test_zero_completed_requests_are_no_evidence(tmp_path: Path) -> None:
    """Exit 5: a run in which nothing completed has no verdict, whatever else it has."""
    with answering(500) as url:
        done = tailbreak("run", write(tmp_path, TINY), "--target", url, cwd=tmp_path)
    assert done.returncode == 5, done.stderr + done.stdout
    assert "No request completed" in done.stdout
    assert "http_error" in done.stdout


def test_failures_past_the_limit_fail_the_run(tmp_path: Path) -> None:
    """Exit 1, with the share and the limit; the rest is still reported."""
    text = TINY.replace("accelerated = [false, true]\n", "")
    with answering(500, every=4) as url:
        done = tailbreak("run", write(tmp_path, text), "--target", url, cwd=tmp_path)
    assert done.returncode in (1, 5), done.stderr + done.stdout
    assert "requests failed" in done.stdout


def test_a_report_of_no_run_is_refused(tmp_path: Path) -> None:
    """Exit 2 and what a run folder looks like."""
    done = tailbreak("report", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert "no run here" in done.stderr


def test_plan_sends_nothing_and_prints_every_send(tmp_path: Path) -> None:
    """Table for people, JSON for programs, both from the plan that a run would store."""
    path = write(tmp_path, TINY)
    shown = tailbreak("plan", path, cwd=tmp_path)
    assert shown.returncode == 0
    assert "160 requests in 20 segments, seed 3" in shown.stdout
    plan = json.loads(tailbreak("plan", path, "--json", cwd=tmp_path).stdout)
    assert len(plan["segments"]) == 20


def test_help_starts_fast_and_teaches() -> None:
    """`--help` loads neither torch nor pandas, and names every verb and exit code."""
    code = (
        "import sys; from harness.cli import main; "
        "assert not {'torch', 'pandas', 'matplotlib', 'locust'} & set(sys.modules), sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    shown = tailbreak("--help", cwd=Path.cwd()).stdout
    for word in ("run", "report", "plan", "serve", "Exit codes"):
        assert word in shown


def test_a_killed_load_process_keeps_what_was_flushed(tmp_path: Path) -> None:
    """`kill -9` in the middle: the run says that it is partial, and its rows are there."""
    process, victim = start_long_run(tmp_path)
    os.kill(victim, signal.SIGKILL)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 5, out + err
    assert "partial" in out
    (run,) = (tmp_path / "reports/runs").iterdir()
    report = json.loads((run / "report.json").read_text(encoding="utf-8"))
    assert report["run"]["status"] == "partial"
    assert sum(cell["n"] for cell in report["cells"]) > 0


def _load_process(parent: int, folder: Path) -> int:
    """Pid of the load process, once its first rows are on disk."""
    for _ in range(1200):
        time.sleep(0.1)
        shards = list(folder.glob("reports/runs/*/shards/*.arrows"))
        if not shards or shards[0].stat().st_size < 20_000:
            continue
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
        for child in children:
            if b"locust" in Path(f"/proc/{child}/cmdline").read_bytes():
                return int(child)
    pytest.fail("the load process never wrote a row")


def start_long_run(folder: Path) -> tuple[subprocess.Popen[str], int]:
    """A run of minutes, once its load process has written rows: the CLI process and its load."""
    text = TINY.replace("requests_per_cell = 12", "requests_per_cell = 1000")
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.cli.main", "run", write(folder, text)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    return process, _load_process(process.pid, folder)


def gone(pid: int) -> bool:
    """Whether the process ends within 30 s (a zombie counts as ended)."""
    for _ in range(300):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


def test_a_vanished_run_folder_ends_the_run(tmp_path: Path) -> None:
    """Someone deletes the folder in the middle: exit 2 and a word about it, no endless load."""
    process, load = start_long_run(tmp_path)
    shutil.rmtree(tmp_path / "reports", ignore_errors=True)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert "Traceback" not in err
    assert gone(load)


def test_terminating_a_run_stops_its_load_and_still_reports(tmp_path: Path) -> None:
    """SIGTERM to the CLI: load and server end, what was measured is reported as partial."""
    process, load = start_long_run(tmp_path)
    process.terminate()
    out, err = process.communicate(timeout=90)
    assert process.returncode == 5, out + err
    assert "partial" in out
    assert gone(load)


def test_killing_a_run_leaves_no_load_behind(tmp_path: Path) -> None:
    """`kill -9` of the CLI: the load process notices and ends by itself."""
    process, load = start_long_run(tmp_path)
    process.kill()
    process.communicate(timeout=30)
    assert gone(load)


def test_ctrl_c_before_the_load_is_said(tmp_path: Path) -> None:
    """SIGINT while the server starts: exit 2 and a word, no traceback, nothing left behind."""
    process = subprocess.Popen(
        [sys.executable, "-m", "harness.cli.main", "run", write(tmp_path, TINY)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(300):
        if children.read_text().split():
            break
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert "interrupted" in err
    assert "Traceback" not in err


def test_a_report_that_cannot_be_shown_is_no_verdict(finished: tuple[Path, str]) -> None:
    """Standard output is full: exit 2 and a message, never the exit code of failed requests."""
    with Path("/dev/full").open("w", encoding="utf-8") as full:
        done = subprocess.run(
            [sys.executable, "-m", "harness.cli.main", "report", str(finished[0])],
            env={**os.environ, "PYTHONPATH": str(Path.cwd())},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr


def test_a_target_that_never_ends_its_answer_is_left(tmp_path: Path) -> None:
    """The check of the target has one time limit: exit 2, with the address."""
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    done = tailbreak("run", write(tmp_path, TINY), "--target", url, cwd=tmp_path, timeout=60)
    listener.close()
    assert done.returncode == 2
    assert url in done.stderr


def test_plan_counts_the_calls_of_chains() -> None:
    """Depths 0, 1, 2, 4, 6 are 18 calls; each reads its prompt and all answers before it."""
    scenario = Path(__file__).resolve().parents[2] / "scenarios" / "cot-chained.toml"
    shown = " ".join(tailbreak("plan", str(scenario), cwd=scenario.parent).stdout.split())
    n_prompt = (18 * 192 + 16 * (1 + 3 + 10 + 21)) * 2 * 56
    assert "560 requests, 2,016 calls in 20 segments" in shown
    assert f"at least {n_prompt:,} prompt tokens" in shown


@pytest.mark.parametrize(
    ("name", "path", "value"),
    [
        ("run.json", ("sessions",), 5),
        ("plan.json", ("segments",), []),
        ("plan.json", ("cells", 0, "factors"), None),
        ("client.json", ("clock_steps",), "many"),
        ("scenario.json", ("axes",), []),
    ],
)
def test_an_edited_run_is_told(
    finished: tuple[Path, str],
    tmp_path: Path,
    name: str,
    path: tuple[str | int, ...],
    value: object,
) -> None:
    """A value of another kind, or a plan without what is recorded: exit 2 and the file."""
    run = tmp_path / "run"
    shutil.copytree(finished[0], run)
    holder = whole = json.loads((run / name).read_text(encoding="utf-8"))
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    (run / name).write_text(json.dumps(whole), encoding="utf-8")
    done = tailbreak("report", str(run), cwd=tmp_path)
    assert (done.returncode, name in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
