from typing import Any, get_args

import pytest

from harness.findings.words import break_sentence
from harness.metrics.phases import COMPONENTS
from harness.report import words
from harness.report.schema import BreakKind, ComparedMetric
from tests.unit.report.make_report import make_jump


@pytest.mark.parametrize("kind", get_args(BreakKind))
@pytest.mark.parametrize("effect", [1.48, -0.3, None])
def test_a_caption_is_the_verdict_sentence(kind: BreakKind, effect: float | None) -> None:
    """The page says of a curve what the verdict says of it."""
    item = make_jump(kind=kind, effect=effect)
    assert words.sentence(item) == break_sentence(item)


def test_short_sentence_needs_no_place() -> None:
    """Below a picture that names metric and factors, neither is said again."""
    item = make_jump(at={"accelerated": False, "cot_depth": 2})
    assert words.short_sentence(item).startswith("Baseline breaks between 224 and 256 prompt")


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("jump", "Baseline at cot_depth 2: jump between 224 and 256 prompt tokens"),
        ("none", "Baseline at cot_depth 2: no break over prompt tokens"),
        ("gradual", "Baseline at cot_depth 2: gradual over prompt tokens"),
        ("staircase", "Baseline at cot_depth 2: staircase over prompt tokens"),
        ("surface", "Baseline at cot_depth 2: surface over prompt tokens"),
    ],
)
def test_headline(kind: str, title: str) -> None:
    """A headline has the path, the other factors, the kind and the place."""
    item = make_jump(kind=kind, at={"accelerated": False, "cot_depth": 2})
    assert words.headline(item) == title


def test_every_component_has_words() -> None:
    """No phase of the catalogue is shown by its code name alone."""
    assert set(words.PHASES) == set(COMPONENTS)


def test_an_unknown_component_keeps_its_name() -> None:
    """A foreign server's phase is shown as it is called, bounded."""
    assert words.phase_name("swap_in") == "swap_in"
    assert len(words.phase_name("x" * 500)) < 80


@pytest.mark.parametrize(
    ("ratio", "verdict", "said"),
    [
        (0.45, "faster", "faster: 55 % less time"),
        (1.21, "slower", "slower: 21 % more time"),
        (1.0, "same", "same"),
        (0.8, "undecided", "undecided"),
        (None, "undecided", "undecided"),
        (None, "faster", "faster"),
    ],
)
def test_comparison(ratio: float | None, verdict: Any, said: str) -> None:
    """The verdict of a comparison stands as it came, with its size."""
    item = ComparedMetric(
        metric="ttft_s", q=0.99, cell="c01", ratio=ratio, low=None, high=None, verdict=verdict
    )
    assert words.comparison(item) == said


def test_quantile_names() -> None:
    """Quantiles are named as people say them."""
    assert [words.quantile_name(q) for q in (0.5, 0.99, 0.999)] == ["P50", "P99", "P99.9"]
