"""What is doubted of telemetry: each planted fault by its words, and silence in health."""

import dataclasses

import pytest

from harness.findings.rules import scraped_metrics
from harness.findings.scraped import doubts_of, grows_idle, zero_under_load
from harness.records.telemetry import Reading
from tests.make_records import make_evidence
from tests.telemetry_rows import rows, scrapes, telemetry

T = tuple(float(t) for t in range(8))
Doubtful = tuple[list[Reading], str]


def rising(name: str, step: float = 1.0, **labels: str) -> list[Reading]:
    return rows(name, [(t, t * step) for t in T], kind="counter", **labels)


HEALTHY = [
    *scrapes(*T), *rising("x_total"), *rising("llm:output_tokens_total"),
    *rows("llm:requests_running", [(0, 0), (2, 3)]), *rows("llm:requests_waiting", [(0, 0)]),
    *rows("DCGM_FI_DEV_GPU_UTIL", [(0, 90)], gpu="0"),
    *rising("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", gpu="0"),
    *rows("process_start_time_seconds", [(0, 1e9)]),
]  # fmt: skip


def test_a_healthy_source_is_not_doubted() -> None:
    """Counters that rise, gauges that move, links that carry."""
    assert doubts_of(telemetry(HEALTHY)) == []
    restarted_once = rows("y_total", [(0, 5), (3, 1), (5, 4)], kind="counter")
    assert doubts_of(telemetry([*HEALTHY, *restarted_once])) == []
    thrice = rows("z_total", [(t, (5, 1, 4, 1, 4, 1)[t]) for t in range(6)], kind="counter")
    assert "z_total went back 3 times" in doubts_of(telemetry([*HEALTHY, *thrice]))[0]
    assert doubts_of(telemetry([*HEALTHY, *thrice]), n_starts=4) == []
    stopped_with_the_run = [*HEALTHY, *scrapes(*T, failed=T[-1:])]
    assert doubts_of(telemetry(stopped_with_the_run)) == []


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (scrapes(*T, failed=T[2:5]), "away from 00:00:02 UTC for 3 s"),
        (scrapes(*T, failed=T[6:]), "away from 00:00:06 UTC for 1 s"),
        (scrapes(*T, failed=T), "none ("),
        (
            [*scrapes(*T), *rows("x_total", [(t, 50 - 40 * (t % 2)) for t in T], kind="counter")],
            "x_total went back 4 times",
        ),
        (
            [*scrapes(*T), *rows("process_start_time_seconds", [(0, 1e9), (4, 2e9)])],
            "its process began anew, seen at 00:00:04 UTC",
        ),
        (
            [
                *scrapes(*T), *rows("DCGM_FI_DEV_GPU_UTIL", [(0, 90)]),
                *rows("DCGM_FI_PROF_NVLINK_TX_BYTES", [(0, 0)], gpu="0"),
                *rows("DCGM_FI_PROF_NVLINK_RX_BYTES", [(0, 0)], gpu="0"),
            ],
            "DCGM_FI_PROF_NVLINK_TX_BYTES is 0 throughout on busy GPUs",
        ),
        (
            [*scrapes(*T), *rows("scrape_missing", [(0, 1)], quantity="llm:kv_usage_ratio")],
            "without llm:kv_usage_ratio, which such servers have",
        ),
        ([*scrapes(*T), *rows("scrape_series_left_out", [(0, 70)])], "70 series are beyond"),
    ],
    ids=["away", "gone", "never", "in turn", "restart", "links", "missing", "bounded"],
)  # fmt: skip
def test_each_fault_is_told_with_its_numbers(planted: list[Reading], words: str) -> None:
    """One sentence, of the right source, and no other fault named."""
    (told,) = doubts_of(telemetry(planted))
    assert told.startswith("metrics of a: ")
    assert words in told


def test_the_reason_of_an_outage_is_told() -> None:
    """Also where it was another one later."""
    reasons = [
        rows("scrape_error", [(2, 1), (3, None)], reason="refused"),
        rows("scrape_error", [(3, 1), (4, None)], reason="HTTP status 503"),
    ]
    (told,) = doubts_of(telemetry(scrapes(*T, failed=(2, 3)), *reasons))
    assert "(refused; HTTP status 503)" in told


def test_a_counter_that_was_made_anew_is_a_restart() -> None:
    """Its start time says so even where its value is already higher; back and forth is none."""
    created = rows("x_created", [(0, 1e9), (5, 2e9)], kind="created")
    (told,) = doubts_of(telemetry(scrapes(*T), created))
    assert "its process began anew, seen at 00:00:05 UTC" in told
    in_turn = rows("process_start_time_seconds", [(t, 1e9 + t % 2) for t in T])
    assert doubts_of(telemetry(scrapes(*T), in_turn)) == []


def test_two_sources_are_told_apart() -> None:
    """The one that is away does not make the other doubtful."""
    told = doubts_of(telemetry(scrapes(*T), scrapes(*T, source="b", failed=T[3:4])))
    assert [text.split(":")[0] for text in told] == ["metrics of b"]


def test_idle_links_of_idle_gpus_are_no_doubt() -> None:
    """Nothing runs, so nothing need be carried; absent links are no zeros either."""
    idle = rows("DCGM_FI_PROF_NVLINK_TX_BYTES", [(0, 0)])
    assert doubts_of(telemetry(scrapes(*T), idle, rows("DCGM_FI_DEV_GPU_UTIL", [(0, 0)]))) == []
    assert doubts_of(telemetry(scrapes(*T), rows("DCGM_FI_DEV_GPU_UTIL", [(0, 90)]))) == []


IDLE = [*rows("llm:requests_running", [(0, 0)]), *rows("llm:requests_waiting", [(0, 0)])]


def test_totals_that_rise_while_idle_are_doubted() -> None:
    """A total that is added again at each scrape; with a request in sight it is just load."""
    grown = rising("llm:prompt_tokens_total", 512)
    assert "llm:prompt_tokens_total grows" in str(grows_idle(telemetry(scrapes(*T), IDLE, grown)))
    busy = rows("llm:requests_running", [(0, 0), (4, 1)])
    assert grows_idle(telemetry(scrapes(*T), busy, IDLE[1:], grown)) is None
    assert grows_idle(telemetry(scrapes(*T), grown)) is None, "no gauge says that it is idle"
    once = rows("llm:prompt_tokens_total", [(0, 0), (3, 9)])
    assert grows_idle(telemetry(scrapes(*T), IDLE, once)) is None


def test_zeros_under_load_are_doubted() -> None:
    """Requests were answered and no total moved; without totals nothing is claimed."""
    still = rows("llm:output_tokens_total", [(0, 0)])
    assert "while 40 requests were answered" in str(
        zero_under_load(telemetry(scrapes(*T), still), 40)
    )
    assert zero_under_load(telemetry(scrapes(*T), still), 3) is None
    assert zero_under_load(telemetry(scrapes(*T)), 40) is None
    assert zero_under_load(telemetry(scrapes(*T), rising("llm:output_tokens_total")), 40) is None


def test_a_run_is_doubted_by_its_telemetry() -> None:
    """The rule speaks of the target with what was sent to it; without telemetry it is silent."""
    evidence = make_evidence()
    assert scraped_metrics.check(evidence) == []
    still = rows("llm:output_tokens_total", [(0, 0)], source="target")
    found = dataclasses.replace(
        evidence, telemetry=telemetry(scrapes(*T, source="target", failed=T[3:4]), still)
    )
    texts = [doubt.text for doubt in scraped_metrics.check(found)]
    assert [doubt.cell for doubt in scraped_metrics.check(found)] == [None, None]
    assert "away" in texts[0]
    assert f"while {len(evidence.analysed)} requests were answered" in texts[1]
