"""Scraping of real endpoints: what is written, what a failure is, and that it stops nothing."""

import contextlib
import time
from collections.abc import Callable, Iterator

import pytest

from harness.base.errors import RecordError, SetupError
from harness.importers import row_changes
from harness.importers.metrics_source import Answer, MetricsSource, NotServed
from harness.importers.metrics_text import NoMetrics, read_metrics
from harness.importers.row_changes import Changes
from harness.importers.watch import watching
from harness.metrics.window import Telemetry
from harness.records.telemetry import Reading, to_readings
from tests.metrics_page import MetricsPage, metrics_page

Rows = list[tuple[str, dict[str, str], float | None]]


def answer(text: str, at: int = 1) -> Answer:
    return Answer(time_unix_ns=at, page=read_metrics(text.encode()), translated=None)


def told(rows: list[Reading]) -> Rows:
    return [(row.name, dict(row.labels), row.value) for row in rows]


def ask(url: str) -> Answer:
    with contextlib.closing(MetricsSource(url)) as source:
        return source.ask()


def test_only_what_changed_makes_a_row() -> None:
    """`up` has one at every scrape; a value that stays has none, one that is gone is absent."""
    changes = Changes("a")
    assert told(changes.answered(answer('x 1\ny{b="c"} 2'))) == [
        ("up", {}, 1), ("x", {}, 1), ("y", {"b": "c"}, 2),
    ]  # fmt: skip
    assert told(changes.answered(answer('x 1\ny{b="c"} 3'))) == [
        ("up", {}, 1),
        ("y", {"b": "c"}, 3),
    ]
    assert told(changes.answered(answer("x 1"))) == [("up", {}, 1), ("y", {"b": "c"}, None)]
    assert told(changes.answered(answer("x 1"))) == [("up", {}, 1)]
    assert told(changes.answered(answer('x 1\ny{b="c"} 3'))) == [
        ("up", {}, 1),
        ("y", {"b": "c"}, 3),
    ]


def test_no_value_yet_is_absent() -> None:
    """NaN has a row without a value, once."""
    changes = Changes("a")
    assert told(changes.answered(answer("x -nan"))) == [("up", {}, 1), ("x", {}, None)]
    assert told(changes.answered(answer("x -nan"))) == [("up", {}, 1)]


def test_a_failure_says_why_once_and_takes_nothing_back() -> None:
    """The series keep what they had; the reason is there until the next answer or another one."""
    changes = Changes("a")
    changes.answered(answer("x 1"))
    assert told(changes.failed(2, "refused")) == [
        ("up", {}, 0), ("scrape_error", {"reason": "refused"}, 1),
    ]  # fmt: skip
    assert told(changes.failed(3, "refused")) == [("up", {}, 0)]
    assert told(changes.failed(4, "late")) == [
        ("up", {}, 0), ("scrape_error", {"reason": "refused"}, None),
        ("scrape_error", {"reason": "late"}, 1),
    ]  # fmt: skip
    assert told(changes.answered(answer("x 1"))) == [
        ("up", {}, 1), ("scrape_error", {"reason": "late"}, None),
    ]  # fmt: skip


def test_series_of_one_source_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond is counted, and the known ones go on."""
    monkeypatch.setattr(row_changes, "MAX_SERIES", 3)
    kept = Changes("a")
    kept.answered(answer("a 1\nb 1"))
    assert told(kept.answered(answer("a 2\nb 2\nc 1\nd 1\ne 1"))) == [
        ("up", {}, 1), ("a", {}, 2), ("b", {}, 2), ("c", {}, 1),
        ("scrape_series_left_out", {}, 2),
    ]  # fmt: skip


def test_kinds_are_the_declared_ones_and_known_better(page: MetricsPage) -> None:
    """An average that llama.cpp declares a counter is a gauge; canonical names have theirs."""
    page.text = (
        "# TYPE llamacpp:n_busy_slots_per_decode counter\nllamacpp:n_busy_slots_per_decode 1.5\n"
        "# TYPE llamacpp:prompt_tokens_total counter\nllamacpp:prompt_tokens_total 3\n"
    )
    kinds = {row.name: row.kind for row in Changes("a").answered(ask(page.url))}
    assert kinds["llamacpp:n_busy_slots_per_decode"] == "gauge"
    assert kinds["llamacpp:prompt_tokens_total"] == "counter"
    assert kinds["llm:prompt_tokens_total"] == "counter"


def test_quantities_that_this_kind_of_server_tells_are_missed(page: MetricsPage) -> None:
    """One that has lost a required series says so in its telemetry."""
    page.text = "vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"
    rows = told(Changes("a").answered(ask(page.url)))
    missed = {labels["quantity"] for name, labels, _ in rows if name == "scrape_missing"}
    assert "llm:kv_usage_ratio" in missed
    assert "llm:requests_running" not in missed


@pytest.mark.parametrize(
    ("address", "path", "name"),
    [
        ("", "/metrics", ""), ("/", "/metrics", ""), ("/metrics", "/metrics", ""),
        ("/a/m", "/a/m", "/a/m"), ("/metrics?format=text", "/metrics?format=text", ""),
    ],
)  # fmt: skip
def test_an_address_without_a_path_means_metrics(
    page: MetricsPage, address: str, path: str, name: str
) -> None:
    """The source is named by host, port and whatever path is not the usual one."""
    page.text = "x 1"
    assert ask(page.url + address).page.values["x", ()] == 1
    assert page.paths == [path]
    assert MetricsSource(page.url + address).name == page.url.removeprefix("http://") + name


@pytest.mark.parametrize(
    ("status", "kind"), [(404, NotServed), (401, NotServed), (500, NoMetrics), (503, NoMetrics)]
)
def test_an_error_status_is_a_failure_and_never_zero(
    page: MetricsPage, status: int, kind: type[Exception]
) -> None:
    """Whatever page comes with it; one that will not change is told from one that may."""
    page.text, page.status = "x 0\n", status
    with pytest.raises(kind, match=f"HTTP status {status}") as caught:
        ask(page.url)
    assert type(caught.value) is kind


def test_an_error_page_with_status_200_names_the_endpoint(page: MetricsPage) -> None:
    """A proxy's HTML is no metrics."""
    page.text = "<html>x 1</html>"
    with pytest.raises(NoMetrics, match=r"127\.0\.0\.1:\d+/metrics: got no metrics: <html>"):
        ask(page.url)


def test_a_query_is_sent_and_not_told(page: MetricsPage) -> None:
    """It may hold a secret: neither the source's name nor a message has it."""
    url = page.url + "/metrics?token=hush"
    page.status = 500
    with pytest.raises(NoMetrics) as caught:
        ask(url)
    assert page.paths == ["/metrics?token=hush"]
    with pytest.raises(SetupError) as refused:
        ask("http://127.0.0.1:9/metrics?token=hush")
    assert "hush" not in f"{MetricsSource(url).name} {caught.value} {refused.value}"
    with pytest.raises(SetupError, match="credentials"):
        MetricsSource("http://u:p@127.0.0.1:9/metrics")


def watch(
    page: MetricsPage, *steps: Callable[[], object], every_s: float = 0.02, name: str = "a"
) -> Telemetry:
    """Telemetry of a watch during which the steps are done, each seen by a scrape of its own."""
    rows: list[Reading] = []
    with watching([MetricsSource(page.url, name=name)], rows.extend, every_s=every_s):
        for step in (lambda: None, *steps):
            step()
            before = len(page.paths)
            while len(page.paths) < before + 2:
                time.sleep(0.005)
    return Telemetry(to_readings(rows))


def test_an_endpoint_is_scraped_until_the_end(page: MetricsPage) -> None:
    """Growth between the first and the last scrape is there, the last one included."""
    page.text = "x_total 1\n"
    found = watch(page, lambda: setattr(page, "text", "x_total 5\n"))
    assert found.window().increase("x_total") == 4
    assert all(is_up for _, is_up in found.up("a"))
    assert len(found.up("a")) == len(page.paths)


def test_an_endpoint_that_fails_is_asked_again(page: MetricsPage) -> None:
    """Its scrapes are 0 meanwhile, with the reason; nothing it said before is lost."""
    page.text = "x 1\n"
    found = watch(page, lambda: setattr(page, "status", 503), lambda: setattr(page, "status", 200))
    states = [is_up for _, is_up in found.up("a")]
    assert states[0]
    assert states[-1]
    assert not all(states)
    (labels,) = found.window().series("scrape_error") or [{}]
    assert found.window().mean("x") == 1
    assert not labels, "the reason stands at scrapes that failed, and those have no value"
    reasons = [dict(series.labels)["reason"] for series in found.series("scrape_error")]
    assert len(reasons) == 1
    assert "HTTP status 503" in reasons[0]


def test_an_endpoint_without_metrics_is_let_go(page: MetricsPage) -> None:
    """A 404 will be one in a second: it is asked once."""
    page.status = 404
    rows: list[Reading] = []
    with watching([MetricsSource(page.url, name="a")], rows.extend, every_s=0.01):
        time.sleep(0.2)
    assert page.paths == ["/metrics"]
    assert [(row.name, row.value) for row in rows] == [("up", 0), ("scrape_error", 1)]


def test_a_full_disk_ends_the_watch_and_nothing_else(page: MetricsPage) -> None:
    """The block goes on."""
    page.text = "x 1"

    def full(_: object) -> None:
        raise RecordError("no space")

    with watching([MetricsSource(page.url)], full, every_s=0.01):
        time.sleep(0.1)
    assert len(page.paths) == 1


def test_sources_are_bounded_and_told_apart(page: MetricsPage) -> None:
    """Two of one name would be one series, and a hundred are a mistake."""
    source = MetricsSource(page.url)
    for sources in ([source, source], [source] * 100):
        with pytest.raises(SetupError, match=r"twice|allowed are"), watching(sources, print):
            pass


@pytest.fixture
def page() -> Iterator[MetricsPage]:
    with metrics_page() as served:
        yield served
