from typing import Any

import pytest

from harness.findings.finding import (
    Breakpoint,
    Estimate,
    RankedComponent,
    Surface,
)
from harness.findings.quantity import change, many, measured, number, percent
from harness.findings.words import (
    break_sentence,
    break_sentences,
    metric_words,
    where_words,
)


def make_break(**changes: Any) -> Breakpoint:
    values: dict[str, Any] = {
        "metric": "ttft_s",
        "q": 0.99,
        "axis": "prompt_tokens",
        "at": {"accelerated": False},
        "kind": "jump",
        "location": 239.5,
        "low": 224.0,
        "high": 256.0,
        "effect": 1.48,
        "effect_low": 1.2,
        "effect_high": 1.71,
        "width_octaves": 0.19,
        "component": "kv_wait",
        "share": 0.82,
        "share_low": 0.75,
        "share_high": 0.88,
        "ranked": [
            RankedComponent(component="kv_wait", share=0.82, low=0.75, high=0.88),
            RankedComponent(component="queue", share=0.1, low=0.05, high=0.15),
        ],
        "detectable_effect": 0.2,
        "caveats": [],
    }
    return Breakpoint(**{**values, **changes})


NO_BREAK = {
    "location": None, "low": None, "high": None, "effect": None, "effect_low": None,
    "effect_high": None, "width_octaves": None, "component": None, "share": None,
    "share_low": None, "share_high": None,
}  # fmt: skip
UNKNOWN: dict[str, Any] = {
    "component": None, "share": None, "share_low": None, "share_high": None, "ranked": [],
}  # fmt: skip


def _surface(*powers: float) -> Surface:
    """A surface over two axes whose level has no upper bound."""
    axes = ["prompt_tokens", "concurrency"]
    known = {
        name: Estimate(value=power, low=power, high=power)
        for name, power in zip(axes, powers, strict=True)
    }
    level = Estimate(value=2540.0, low=2410.0, high=None)
    return Surface(form="product", axes=axes, coefficients={**known, "level": level})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {},
            ("TTFT P99 on the baseline path breaks between 224 and 256 prompt tokens: it jumps by "
            "+148 % (+120 to +171 %). Behind it: kv_wait (a slot is free, KV memory is not), "
            "82 % of the rise (75 to 88 %)."),
        ),
        (
            {"component": None, "share": None, "share_low": None, "share_high": None},
            ("TTFT P99 on the baseline path breaks between 224 and 256 prompt tokens: it jumps by "
            "+148 % (+120 to +171 %). No single component is certain to hold half of it; "
            "ranked: kv_wait 82 %, queue 10 %."),
        ),
        (
            {"share": 1.3, "share_low": 1.2, "share_high": 1.4},
            (
                "TTFT P99 on the baseline path breaks between 224 and 256 prompt tokens: it jumps "
                "by +148 % (+120 to +171 %). Behind it: kv_wait (a slot is free, KV memory is "
                "not), all of the rise and more (120 to 140 %)."
            ),
        ),
        (
            {"kind": "kink", "effect": None, **UNKNOWN, "at": {}},
            "TTFT P99 bends upwards between 224 and 256 prompt tokens.",
        ),
        (
            {"kind": "kink", "effect": 0.3, "effect_low": 0.2, "effect_high": 0.4},
            ("TTFT P99 on the baseline path bends upwards between 224 and 256 prompt tokens, by "
            "+35 % (+22 to +49 %) for each doubling. Behind it: kv_wait (a slot is free, KV "
            "memory is not), 82 % of the rise (75 to 88 %)."),
        ),
        (
            {"kind": "kink", "effect": -0.3, "effect_low": -0.4, "effect_high": -0.2,
             "share_low": None, "share_high": None},
            ("TTFT P99 on the baseline path bends downwards between 224 and 256 prompt tokens, by "
            "\u221226 % (\u221233 to \u221218 %) for each doubling. Behind it: kv_wait (a slot is "
            "free, KV memory is not), 82 % of the change."),
        ),
        (
            {"effect": -0.3, "effect_low": -0.4, "effect_high": -0.2, "share_high": None},
            ("TTFT P99 on the baseline path breaks between 224 and 256 prompt tokens: it drops by "
            "\u221230 % (\u221240 to \u221220 %). Behind it: kv_wait (a slot is free, KV memory is "
            "not), 82 % of the drop (at least 75 %)."),
        ),
        (
            {"kind": "both", **UNKNOWN},
            ("TTFT P99 on the baseline path breaks between 224 and 256 prompt tokens: it jumps by "
            "+148 % (+120 to +171 %) and changes slope there."),
        ),
        (
            {"low": None, **UNKNOWN, "effect_low": None},
            ("TTFT P99 on the baseline path breaks somewhere below 256 prompt tokens: it jumps by "
            "+148 % (at most +171 %)."),
        ),
        (
            {"high": None, **UNKNOWN, "effect_high": None},
            ("TTFT P99 on the baseline path breaks somewhere above 224 prompt tokens: it jumps by "
            "+148 % (at least +120 %)."),
        ),
        (
            {"low": None, "high": None, **UNKNOWN},
            ("TTFT P99 on the baseline path breaks near 240 prompt tokens, interval unknown: it "
            "jumps by +148 % (+120 to +171 %)."),
        ),
        (
            {"axis": "frequency_penalty", "low": 0.5, "high": 0.75, **UNKNOWN},
            ("TTFT P99 on the baseline path breaks between frequency_penalty 0.500 and 0.750: it "
            "jumps by +148 % (+120 to +171 %)."),
        ),
        (
            {"kind": "surface", "axes": ["prompt_tokens", "concurrency"], "effect": None,
             **UNKNOWN},
            ("TTFT P99 on the baseline path changes regime on a surface over prompt tokens \u00d7 "
            "requests in flight."),
        ),
        (
            {"kind": "surface", "axes": ["prompt_tokens", "concurrency"],
             "surface": _surface(1.0, 1.0), **UNKNOWN},
            ("TTFT P99 on the baseline path changes regime by +148 % (+120 to +171 %) beyond "
            "prompt tokens \u00d7 requests in flight = 2540 (2410 to ?)."),
        ),
        (
            {"kind": "surface", "axes": ["prompt_tokens", "concurrency"], "effect": None,
             "surface": _surface(1.0, 0.5), **UNKNOWN},
            ("TTFT P99 on the baseline path changes regime beyond prompt tokens \u00d7 requests in "
            "flight ^ 0.50 = 2540 (2410 to ?)."),
        ),
        (
            {"kind": "staircase", "low": 64.0, **UNKNOWN},
            ("TTFT P99 on the baseline path climbs in several similar steps between 64 and 256 "
            "prompt tokens, such as +148 % (+120 to +171 %): no single break."),
        ),
        (
            {"kind": "gradual", "low": 64.0, "high": 368.0, "width_octaves": 2.5, "ranked": []},
            ("TTFT P99 on the baseline path rises gradually by +148 % (+120 to +171 %) between 64 "
            "and 368 prompt tokens over 2.5 octaves: no break; one above 20 % would have been "
            "seen."),
        ),
        (
            {**NO_BREAK, "kind": "gradual", "at": {"accelerated": True}},
            ("TTFT P99 on the accelerated path rises gradually over prompt tokens: no break; one "
            "above 20 % would have been seen."),
        ),
        (
            {**NO_BREAK, "kind": "none", "detectable_effect": 5.0, "at": {}},
            (
                "TTFT P99 shows no break over prompt tokens; only a jump above 500 % was sure to "
                "be seen here."
            ),
        ),
        (
            {**NO_BREAK, "kind": "none", "detectable_effect": None, "axis": "concurrency"},
            ("TTFT P99 on the baseline path: a break over requests in flight cannot be told from a "
            "smooth curve here."),
        ),
        (
            {**NO_BREAK, "kind": "staircase", "ranked": []},
            ("TTFT P99 on the baseline path climbs in several similar steps over prompt tokens: no "
            "single break."),
        ),
        (
            {"effect": None, "effect_low": None, "effect_high": None, "component": None,
             "ranked": []},
            ("TTFT P99 on the baseline path breaks between 224 and 256 prompt tokens: it jumps by "
            "an unknown amount."),
        ),
    ],
)  # fmt: skip
def test_a_breakpoint_reads_as_a_sentence(changes: dict[str, Any], sentence: str) -> None:
    """Kind, place, size, interval and blame, in the words a person reads first."""
    assert break_sentence(make_break(**changes)) == sentence


def test_other_factors_are_named() -> None:
    """The path by its word, everything else by name and value."""
    at = {"accelerated": True, "frequency_penalty": 0.5, "cot_depth": 2}
    assert where_words(at) == "on the accelerated path, at frequency_penalty 0.5, cot_depth 2"
    assert where_words({}) == ""
    assert where_words({"accelerated": "true,x", "cot_depth": 2}) == (
        "with accelerated + x, at cot_depth 2"
    )


def test_quantiles_are_named_as_the_field_does() -> None:
    """P99, P99.9, P50: no trailing zeros."""
    assert metric_words("e2e_s", 0.999) == "E2E P99.9"
    assert metric_words("itl_s", 0.5) == "ITL P50"


def test_many_quiet_curves_share_a_sentence() -> None:
    """Six curves, one of them broken: the break is said first, five others in one sentence."""
    quiet = make_break(**NO_BREAK, kind="none", detectable_effect=0.3)
    unclear = make_break(**NO_BREAK, kind="none", detectable_effect=None)
    said = break_sentences([quiet, quiet, unclear, make_break(), unclear, quiet])
    assert len(said) == 2
    assert "breaks between 224 and 256" in said[0]
    assert said[1] == (
        "TTFT P99 shows no break over prompt tokens on 5 of 6 curves; on 2 of them a break cannot "
        "be told from a smooth curve."
    )
    assert len(break_sentences([quiet, unclear])) == 2


@pytest.mark.parametrize(
    ("n", "said"), [(0, "0 cells"), (1, "1 cell"), (2, "2 cells"), (12_432, "12,432 cells")]
)
def test_a_noun_agrees_with_its_number(n: int, said: str) -> None:
    """One is singular, everything else plural, thousands are grouped."""
    assert many(n, "cell") == said


def test_an_infinite_figure_is_a_word_and_no_error() -> None:
    """A quantile beyond the last bucket is known to be larger only: that can be said, too."""
    assert (number(float("inf")), percent(float("inf"))) == ("∞", "∞ %")
    assert change(float("-inf")).endswith("\u221e %")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1.41e9, "Hz", "1.41 GHz"),
        (269277972, "bytes", "257 MiB"),
        (4.3e9, "bytes/s", "4.30 GB/s"),
        (61, "\u00b0C", "61.0 \u00b0C"),
        (0.5, "", "0.500"),
    ],
)
def test_a_figure_is_told_in_a_size_that_can_be_read(value: float, unit: str, text: str) -> None:
    """Hertz and bytes have prefixes, what has no unit has none."""
    assert measured(value, unit) == text
