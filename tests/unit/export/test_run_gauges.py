"""Findings as gauges: every label of theirs, nothing for what is undefined."""

from harness.export.run_gauges import break_points, cell_points, ratio_points
from harness.findings.finding import (
    BaselineComparison,
    Breakpoint,
    Cell,
    ComparedMetric,
    Comparison,
    Estimate,
    RankedComponent,
    TokenCounts,
)
from harness.metrics.catalogue.load import RUN_BREAKPOINT, RUN_QUANTILE, RUN_RATIO, RUN_SHARE

SERVICE = ("svc", "1", "grid")


def a_break(**changes: object) -> Breakpoint:
    values: dict[str, object] = {
        "metric": "ttft_s", "q": 0.99, "axis": "prompt_tokens",
        "at": {"cot_depth": 2, "accelerated": False}, "kind": "jump", "location": 240.0,
        "low": 224.0, "high": None, "effect": 1.5, "effect_low": 1.2, "effect_high": 1.7,
        "width_octaves": 0.1, "component": "kv_wait", "share": 0.8, "share_low": 0.7,
        "share_high": 0.9, "detectable_effect": 0.2, "caveats": [],
        "ranked": [RankedComponent(component="kv_wait", share=0.8, low=0.7, high=0.9),
                   RankedComponent(component="queue", share=None, low=None, high=None)],
    }  # fmt: skip
    return Breakpoint.model_validate({**values, **changes})


def test_a_break_has_its_place_and_its_shares() -> None:
    """Location and bounds that there are, under path, quantile, axis and the other factors."""
    found = list(break_points(SERVICE, [a_break()]))
    where = (*SERVICE, "baseline", "ttft_s", "0.99", "prompt_tokens", "cot_depth=2")
    assert [(metric, each.labels, each.value) for metric, each in found] == [
        (RUN_BREAKPOINT, (*where, "jump", "location"), 240.0),
        (RUN_BREAKPOINT, (*where, "jump", "low"), 224.0),
        (RUN_SHARE, (*where, "kv_wait"), 0.8),
    ]


def test_breaks_on_two_sets_of_features_stay_apart() -> None:
    """Both are the accelerated path; the set is told among the other factors."""
    breaks = [a_break(at={"accelerated": name}) for name in ("paged_kv", "prefix_cache")]
    labels = [each.labels for metric, each in break_points(SERVICE, breaks)]
    assert len(set(labels)) == len(labels)
    assert {each[3] for each in labels} == {"accelerated"}


def test_a_gradual_rise_that_has_no_place_has_no_series() -> None:
    """Null is absent, never zero."""
    nothing = a_break(kind="none", location=None, low=None, ranked=[])
    assert list(break_points(SERVICE, [nothing])) == []


def test_quantiles_have_the_cells_labels() -> None:
    """Value and bounds of each quantile; an open bound is absent."""
    cell = Cell(
        id="c00", factors={}, state="fixed", n=9, n_effective=9.0, outcomes={"ok": 9},
        metrics={"ttft_s": {"p99": Estimate(value=0.02, low=0.01, high=None)}},
        phases_mean_s={}, phases_tail_s={}, sent_rps=None, completed_rps=None, features=[],
        tokens=TokenCounts(prompt_mean=1, output_mean=1, count_source=None), caveats=[],
    )  # fmt: skip
    labels = (*SERVICE, "c00", "baseline")
    found = list(cell_points({"c00": labels}, [cell]))
    assert [(metric, each.labels, each.value) for metric, each in found] == [
        (RUN_QUANTILE, (*labels, "ttft_s", "0.99", "value"), 0.02),
        (RUN_QUANTILE, (*labels, "ttft_s", "0.99", "low"), 0.01),
    ]


def test_a_ratio_names_what_it_is_over() -> None:
    """Over the other path and over an earlier run: two series of one cell, none without either."""
    each = ComparedMetric(
        metric="ttft_s", q=0.99, cell="c01", ratio=0.5, low=0.4, high=0.6, verdict="faster"
    )
    paths = Comparison(reference="baseline", candidate="accelerated", metrics=[each])
    runs = BaselineComparison(
        reference="run-1", candidate="run-2", limit=0.1, confidence=0.95, verdict="pass",
        detectable_effect=None, metrics=[each], unmatched=[], caveats=[],
    )  # fmt: skip
    for compared, over in ((paths, "baseline"), (runs, "run-1")):
        assert [(metric, p.labels, p.value) for metric, p in ratio_points(SERVICE, compared)] == [
            (RUN_RATIO, (*SERVICE, "c01", over, "ttft_s", "0.99", bound), value)
            for bound, value in (("value", 0.5), ("low", 0.4), ("high", 0.6))
        ]
    assert list(ratio_points(SERVICE, None)) == []
