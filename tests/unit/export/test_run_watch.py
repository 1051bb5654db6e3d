"""A run folder followed: sessions and workers together, compaction, deletion, progress, the end."""

import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.base.errors import RecordError
from harness.export.page import Page
from harness.export.run_watch import RunWatch
from harness.plan.build import build_plan
from harness.plan.codec import plan_to_json
from harness.records.run import RunFolder
from harness.records.shard import ShardWriter
from harness.records.store import compact
from tests.exposition import Samples, labels, read_samples
from tests.make_records import SMALL, make_record, make_scenario
from tests.prometheus_process import needs_prometheus, promtool

OPENMETRICS = "application/openmetrics-text;version=1.0.0"
PAGES = defaultdict[RunWatch, Page](Page)


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    """A prepared run, nothing recorded; its second session goes on."""
    scenario = make_scenario(SMALL.replace("[axes]", '[target]\nservice = "chat"\n\n[axes]'))
    folder = RunFolder(tmp_path / "run")
    folder.path.mkdir()
    folder.shards.mkdir()
    folder.write_json("scenario.json", scenario.resolved())
    folder.write_json("plan.json", plan_to_json(build_plan(scenario)))
    sessions = [{"number": n, "started": "now"} for n in (1, 2)]
    about = {"id": "run-1", "target": "http://127.0.0.1:1", "started": "now", "status": "running"}
    folder.write_json("run.json", {**about, "sessions": sessions})
    return folder


@pytest.fixture
def watch(run: RunFolder) -> Iterator[RunWatch]:
    """The same, followed."""
    found = RunWatch(run)
    yield found
    found.close()


def record(run: RunFolder, writer: str, *cells: str, session: int = 1) -> None:
    """A closed shard with a row for each of these cells."""
    shard = ShardWriter(run.shards, writer)
    for index, cell in enumerate(cells):
        shard.append(make_record(cell=cell, segment=writer, index=index, session=session))
    shard.close()


def samples(watch: RunWatch) -> Samples:
    """What a scrape would get; one page is written again and again, as the exporter does it."""
    watch.refresh()
    return read_samples(PAGES[watch].write(watch.pieces(), OPENMETRICS)[0].decode())


def n_requests(found: Samples) -> dict[str, float]:
    """By cell."""
    return {
        dict(where)["cell"]: n
        for (name, where), n in found.items()
        if name == "mc_load_requests_total"
    }


def test_every_session_and_worker_counts_once(run: RunFolder, watch: RunWatch) -> None:
    """Shards of two workers and of a later session add up, as they appear; none counts twice."""
    assert n_requests(samples(watch)) == {}
    record(run, "session-1-load-0", "c00", "c00", "c01")
    record(run, "session-1-load-1", "c00")
    assert n_requests(samples(watch)) == {"c00": 3, "c01": 1}
    record(run, "session-2-load-0", "c01", session=2)
    for _ in range(2):
        assert n_requests(samples(watch)) == {"c00": 3, "c01": 2}


def test_a_run_that_is_compacted_or_deleted_keeps_its_counts(
    run: RunFolder, watch: RunWatch
) -> None:
    """Rows that went into the Parquet file before anybody looked are counted, with the others."""
    record(run, "session-1-load-0", "c00")
    assert n_requests(samples(watch)) == {"c00": 1}
    record(run, "session-1-load-1", "c00", "c01")
    compact(run)
    for _ in range(2):
        assert n_requests(samples(watch)) == {"c00": 2, "c01": 1}
    shutil.rmtree(run.path)
    assert n_requests(samples(watch)) == {"c00": 2, "c01": 1}


def test_a_damaged_shard_is_named_and_the_others_go_on(run: RunFolder, watch: RunWatch) -> None:
    """Rows that were acknowledged and are not there: the shard is told, the rest is counted."""
    record(run, "session-1-load-0", "c00")
    record(run, "session-1-load-1", "c00", "c01")
    shard = run.shards / "session-1-load-0.arrows"
    shard.write_bytes(shard.read_bytes()[:-2000])
    assert n_requests(samples(watch)) == {"c00": 1, "c01": 1}
    assert watch.damaged == ["session-1-load-0.arrows"]


def test_the_running_cell_and_the_users_are_those_of_the_progress_file(
    run: RunFolder, watch: RunWatch
) -> None:
    """Absent before there is progress; 1 for one cell; 0 for all once the load is over."""
    before = samples(watch)
    assert ("locust_user_count", labels()) not in before
    assert _running(before) == {}
    run.write_json("progress.json", {"cell": "c02", "users": 7})
    found = samples(watch)
    assert found["locust_user_count", labels()] == 7
    assert _running(found) == {("prompt_tokens=128 accelerated=false", "baseline"): 1}
    run.write_json("progress.json", {"cell": "c01", "users": 7})
    assert _running(samples(watch)) == {("prompt_tokens=64 accelerated=true", "accelerated"): 1}
    assert found["mc_load_up", labels(run="run-1")] == 1
    assert found["mc_load_planned_requests", labels(run="run-1")] == 4 * 8, (
        "the warm-up counts on neither side"
    )
    info = labels(run="run-1", scenario="small", service="chat", version="unknown",
                  target="http://127.0.0.1:1")  # fmt: skip
    assert found["mc_load_run_info", info] == 1
    watch.is_up = False
    ended = samples(watch)
    assert (ended["locust_user_count", labels()], _running(ended)) == (0, {})
    assert ended["mc_load_up", labels(run="run-1")] == 0


def _running(found: Samples) -> dict[tuple[str, str], float]:
    """Cells that are not 0, by their factors and path."""
    cells = [key for key in found if key[0] == "mc_load_cell_running"]
    assert len(cells) == 4
    return {
        (dict(where)["factors"], dict(where)["path"]): found[name, where]
        for name, where in cells
        if found[name, where]
    }


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    """Nothing to watch: the file that is missing is named."""
    with pytest.raises(RecordError, match=r"scenario\.json"):
        RunWatch(RunFolder(tmp_path))


@needs_prometheus
def test_promtool_has_nothing_to_say_but_about_locusts_own_name(
    run: RunFolder, watch: RunWatch
) -> None:
    """The page passes `promtool check metrics`, except for the name that Locust's boards know."""
    record(run, "session-1-load-0", "c00", "c01")
    run.write_json("progress.json", {"cell": "c00", "users": 1})
    watch.refresh()
    text = Page().write(watch.pieces(), "")[0].decode()
    said = promtool("check", "metrics", text=text)
    lines = (said.stdout + said.stderr).strip().splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("locust_user_count ")
