import json
import selectors
import statistics
import time
from pathlib import Path

import pytest

from harness.base.errors import SetupError
from harness.server.truth.log import Entry, Log
from harness.server.truth.serve import exact_selector


def naps_s(selector: selectors.BaseSelector) -> list[float]:
    """How long 30 waits of 0.2 ms with nothing to see really took."""
    naps = []
    with selector:
        for _ in range(30):
            started = time.perf_counter()
            selector.select(0.0002)
            naps.append(time.perf_counter() - started)
    return naps


@pytest.mark.skipif(not hasattr(selectors, "EpollSelector"), reason="Linux counts in milliseconds")
def test_the_selector_does_not_round_up_to_milliseconds() -> None:
    """Never early, and in the median sooner than the plain one, which needs a whole millisecond."""
    exact, plain = naps_s(exact_selector()), naps_s(selectors.EpollSelector())
    assert min(exact) >= 0.0002
    assert statistics.median(exact) < statistics.median(plain)


def entry(number: int) -> Entry:
    return Entry(number=number, seed=1, n_prompt=8, arrival_ns=number, n_in_flight=1)


def test_the_log_forgets_the_oldest_and_says_so() -> None:
    """Three kept of five: pages start where asked, and at the first that is left."""
    log = Log(kept=3)
    for number in range(1, 6):
        log.add(entry(number))
    page = log.page(0)
    assert [item["number"] for item in page["entries"]] == [3, 4, 5]
    assert (page["n_requests"], page["n_forgotten"]) == (5, 2)
    assert [item["number"] for item in log.page(4)["entries"]] == [5]
    assert log.page(5)["entries"] == []


def test_a_page_ends_at_a_thousand() -> None:
    """The next one goes on where it ended."""
    log = Log()
    for number in range(1, 1502):
        log.add(entry(number))
    assert [len(log.page(after)["entries"]) for after in (0, 1000)] == [1000, 501]


def test_the_record_holds_what_the_memory_forgot(tmp_path: Path) -> None:
    """Every ended request is a line; an existing file is never overwritten."""
    path = tmp_path / "record.jsonl"
    log = Log(path, kept=1)
    for number in (1, 2):
        log.add(entry(number))
        log.end(entry(number))
    log.close()
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [1, 2]
    with pytest.raises(SetupError, match="name a new file"):
        Log(path)
