from typing import Any

import pytest

from harness.metrics.phases import COMPONENTS
from harness.report import words
from harness.report.schema import ComparedMetric
from tests.unit.report.make_report import make_gradual, make_jump

OPEN_SHARE: dict[str, Any] = {
    "component": None, "share": None, "share_low": None, "share_high": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {},
            ("Baseline TTFT P99 jumps by +148 % (+120 to +171 %) between prompt_tokens 224 and "
            "256; behind it: waiting for KV memory (82 % of the rise, 75\u201388 %)."),
        ),
        (
            {"at": {}, "kind": "both"},
            ("TTFT P99 jumps by +148 % (+120 to +171 %) between prompt_tokens 224 and 256 and "
            "changes slope there; behind it: waiting for KV memory (82 % of the rise, "
            "75\u201388 %)."),
        ),
        (
            {"effect": -0.3, "effect_low": -0.4, "effect_high": -0.2, "ranked": [], **OPEN_SHARE},
            ("Baseline TTFT P99 drops by \u221230 % (\u221240 to \u221220 %) between prompt_tokens "
            "224 and 256; no component is known."),
        ),
        (
            {"high": None, "effect_high": None, **OPEN_SHARE},
            ("Baseline TTFT P99 jumps by +148 % (at least +120 %) somewhere above prompt_tokens "
            "224; no component is certain to hold half of it; first is waiting for KV memory "
            "(82 %, 75\u201388)."),
        ),
        (
            {"low": None, "effect": None, "ranked": [], **OPEN_SHARE},
            "Baseline TTFT P99 jumps somewhere below prompt_tokens 256; no component is known.",
        ),
        (
            {"low": None, "high": None, "ranked": [], **OPEN_SHARE},
            ("Baseline TTFT P99 jumps by +148 % (+120 to +171 %) near prompt_tokens 240, interval "
            "unknown; no component is known."),
        ),
        (
            {
                "kind": "kink", "effect": 0.3, "effect_low": 0.2, "effect_high": 0.4,
                "at": {"accelerated": True, "cot_depth": 2}, "share_low": None, "share_high": None,
            },
            ("Accelerated TTFT P99 at cot_depth 2 starts to climb faster, +35 % (+22 to +49 %) for "
            "each doubling, between prompt_tokens 224 and 256; behind it: waiting for KV memory "
            "(82 % of the rise)."),
        ),
        (
            {"kind": "staircase", "q": 0.5, "low": 64.0},
            ("Baseline TTFT P50 climbs a staircase of similar small steps, such as +148 % (+120 to "
            "+171 %), between prompt_tokens 64 and 256; none is a break of its own."),
        ),
        (
            {"kind": "surface", "axes": ["prompt_tokens", "concurrency"], "effect": None},
            ("Baseline TTFT P99 changes regime on a surface over prompt_tokens \u00d7 concurrency; "
            "behind it: waiting for KV memory (82 % of the rise, 75\u201388 %)."),
        ),
    ],
)  # fmt: skip
def test_sentence(changes: dict[str, Any], sentence: str) -> None:
    """Each kind of break has its sentence, and an open bound is never filled in."""
    assert words.sentence(make_jump(**changes)) == sentence


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {},
            (
                "Accelerated TTFT P99 rises gradually by +350 % (+310 to +390 %) between "
                "prompt_tokens 64 and 368 over 2.5 octaves; no place stands out as a break."
            ),
        ),
        (
            {"low": None, "high": None, "effect": None, "width_octaves": None},
            (
                "Accelerated TTFT P99 rises gradually along prompt_tokens; no place stands out as "
                "a break."
            ),
        ),
        (
            {"kind": "none"},
            (
                "Accelerated TTFT P99 has no break along prompt_tokens; one above 25 % would have "
                "been seen."
            ),
        ),
        (
            {"kind": "none", "detectable_effect": None},
            "Accelerated TTFT P99 has no break along prompt_tokens that this grid could show.",
        ),
    ],
)
def test_no_break(changes: dict[str, Any], sentence: str) -> None:
    """Without a break the sentence says what would have been seen, or that nothing would."""
    assert words.sentence(make_gradual(**changes)) == sentence


def test_short_sentence_needs_no_place() -> None:
    """Below a picture that names metric and factors, neither is said again."""
    item = make_jump(at={"accelerated": False, "cot_depth": 2}, ranked=[], **OPEN_SHARE)
    assert words.short_sentence(item).startswith("Baseline jumps by +148 %")


@pytest.mark.parametrize(
    ("kind", "title"),
    [
        ("jump", "Baseline at cot_depth 2: jump between prompt_tokens 224 and 256"),
        ("none", "Baseline at cot_depth 2: no break along prompt_tokens"),
        ("gradual", "Baseline at cot_depth 2: gradual along prompt_tokens"),
        ("staircase", "Baseline at cot_depth 2: staircase along prompt_tokens"),
        ("surface", "Baseline at cot_depth 2: surface over prompt_tokens"),
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
