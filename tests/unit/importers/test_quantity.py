"""One number between two scrapes: a P99, a rate, a gauge, by its own name or the canonical one."""

import pytest

from harness.base.errors import SetupError
from harness.importers.engines.canonical import detect_engine, translate
from harness.importers.metrics_source import Answer
from harness.importers.metrics_text import read_metrics
from harness.importers.quantity import choose_quantity, sample


def answer(text: str, at_s: float = 0.0) -> Answer:
    page = read_metrics(text.encode())
    engine = detect_engine(page)
    return Answer(
        time_unix_ns=int(at_s * 1e9),
        page=page,
        translated=None if engine is None else translate(page, engine),
    )


def histogram(*counts: int) -> str:
    bounds = ("0.1", "0.2", "+Inf")
    name = "vllm:time_to_first_token_seconds_bucket"
    return "".join(f'{name}{{le="{le}"}} {n}\n' for le, n in zip(bounds, counts, strict=True))


def test_a_histogram_gives_the_p99_of_what_was_counted_in_between() -> None:
    """Old counts do not matter; without any none; beyond the last bound is that one."""
    before = answer(histogram(900, 900, 900))
    assert sample("llm:ttft_seconds", before, answer(histogram(900, 1000, 1000))) == pytest.approx(
        0.199
    )
    assert sample("llm:ttft_seconds", before, answer(histogram(900, 900, 900))) is None
    assert sample("llm:ttft_seconds", before, answer(histogram(900, 900, 950))) == 0.2
    restarted = answer(histogram(0, 10, 10))
    assert sample("llm:ttft_seconds", before, restarted) == pytest.approx(0.199)


def test_the_servers_own_name_gives_the_same() -> None:
    """Raw or canonical is the asker's choice."""
    before, now = answer(histogram(0, 0, 0)), answer(histogram(5, 9, 9))
    own = sample("vllm:time_to_first_token_seconds", before, now)
    assert own == sample("llm:ttft_seconds", before, now)


def test_a_counter_gives_its_rate_and_a_gauge_its_largest_series() -> None:
    """Per second of the time in between; a counter that began again counts from zero."""
    text = (
        '# TYPE c counter\nc{{i="0"}} {a}\nc{{i="1"}} {b}\n'
        '# TYPE g gauge\ng{{i="0"}} {a}\ng{{i="1"}} {b}\n'
    )
    before, now = answer(text.format(a=5, b=9)), answer(text.format(a=9, b=2), at_s=2)
    assert sample("c", before, now) == (4 + 2) / 2
    assert sample("g", before, now) == 9
    assert sample("other", before, now) is None
    assert sample("g", before, answer("g NaN")) is None


def test_the_first_token_is_watched_or_else_the_whole_answer() -> None:
    """What is wanted must be there; the error names what is."""
    assert choose_quantity(answer(histogram(1, 1, 1)), None) == "llm:ttft_seconds"
    whole = answer('tgi_request_duration_bucket{le="+Inf"} 1')
    assert choose_quantity(whole, None) == "llm:e2e_seconds"
    assert choose_quantity(whole, "tgi_request_duration") == "tgi_request_duration"
    with pytest.raises(SetupError, match="it tells x"):
        choose_quantity(answer("x 1"), None)
