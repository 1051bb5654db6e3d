"""Reports to test with: the quickstart shape, and a grid of three axes.

The numbers are made up once and follow the shape of a real run: the baseline runs out of KV memory
between prompts of 224 and 256 tokens, the accelerated path rises gradually.
"""

from itertools import product
from typing import Any

from harness.findings.words import break_sentence
from harness.report.schema import (
    Analysis,
    Answers,
    Breakpoint,
    Cell,
    CellState,
    ComparedMetric,
    Comparison,
    Estimate,
    Factor,
    LedgerRow,
    MetricName,
    Quantile,
    RankedComponent,
    Report,
    Reproduce,
    Round,
    Run,
    StopFigures,
    Surface,
    TokenCounts,
    Validity,
    Verdict,
)

PROMPTS = (64, 128, 192, 224, 256, 320, 368)
TTFT_P99_MS = {
    False: (20.0, 36.0, 49.0, 51.0, 129.0, 151.0, 176.0),
    True: (20.0, 35.0, 47.0, 50.0, 58.0, 66.0, 90.0),
}
METRICS: tuple[MetricName, ...] = ("ttft_s", "e2e_s", "itl_s")
LEDGER_METRICS: tuple[MetricName, ...] = ("e2e_s", "ttft_s", "tpot_s", "itl_s")
QUANTILES: dict[Quantile, float] = {"p50": 0.5, "p99": 0.99}
ENVIRONMENT = {
    "tailbreak": "0.1.0",
    "python": "3.11.7",
    "os": "Linux 6.1",
    "machine": "x86_64",
    "cpu": "Example CPU at 2.4 GHz",
    "cores": "2",
    "memory_gib": "7.8",
    "clock_source": "tsc",
    "locust version": "2.43.1",
    "torch version": "2.13.0+cpu",
}


def make_report(**changes: Any) -> Report:
    """The quickstart: prompt length along the axis, baseline beside accelerated."""
    cells = [
        make_cell(
            f"c{2 * i + int(accelerated):02d}",
            {"prompt_tokens": prompt, "accelerated": accelerated},
            TTFT_P99_MS[accelerated][i] / 1000,
        )
        for i, prompt in enumerate(PROMPTS)
        for accelerated in (False, True)
    ]
    parts: dict[str, Any] = {
        "run": make_run(),
        "analysis": Analysis(metric="ttft_s", q=0.99, confidence=0.95, axis="prompt_tokens"),
        "verdict": Verdict(
            status="pass",
            text=f"{break_sentence(make_jump())} {break_sentence(make_gradual())} The accelerated "
            "path is faster in 3 of 7 cells, most at 320 prompt tokens (2.29x, 2.13 to 2.46).",
        ),
        "validity": make_validity(),
        "cells": cells,
        "breakpoints": [make_jump(), make_gradual()],
        "comparison": make_comparison(cells),
        "reproduce": Reproduce(
            command="tailbreak run scenarios/quickstart.toml --seed 20261130",
            seed=20261130,
            environment=ENVIRONMENT,
        ),
        "caveats": [
            "One server start: the spread between starts is not in the intervals.",
            "Server and load share two cores: absolute times belong to this machine.",
        ],
    }
    return Report(**{**parts, **changes})


def make_grid_report(**changes: Any) -> Report:
    """Three axes: prompt length, CoT depth and frequency penalty, on both paths."""
    cells: list[Cell] = []
    for prompt in (64, 192, 320):
        for depth in (0, 2, 4):
            for penalty in (0.0, 0.5):
                for accelerated in (False, True):
                    factors: dict[str, Factor] = {
                        "prompt_tokens": prompt,
                        "cot_depth": depth,
                        "frequency_penalty": penalty,
                        "accelerated": accelerated,
                    }
                    seconds = 0.012 + prompt * 1.4e-4 + depth * 0.004 + penalty * 0.003
                    if not accelerated and prompt + 48 * depth > 300:
                        seconds *= 2.3
                    cells.append(make_cell(f"c{len(cells):02d}", factors, seconds))
    jumps = [
        make_jump(
            low=192.0 if depth < 4 else 64.0,
            high=320.0 if depth < 4 else 192.0,
            location=256.0 if depth < 4 else 128.0,
            at={"cot_depth": depth, "frequency_penalty": penalty, "accelerated": False},
        )
        for depth in (0, 2, 4)
        for penalty in (0.0, 0.5)
    ]
    nones = [
        make_gradual(
            kind="none",
            at={"cot_depth": depth, "frequency_penalty": penalty, "accelerated": True},
            location=None,
            low=None,
            high=None,
            effect=None,
            effect_low=None,
            effect_high=None,
            width_octaves=None,
        )
        for depth in (0, 2, 4)
        for penalty in (0.0, 0.5)
    ]
    parts: dict[str, Any] = {
        "run": make_run(scenario="grid", title="Prompt length, CoT depth and penalty"),
        "cells": cells,
        "breakpoints": jumps + nones,
        "comparison": make_comparison(cells),
    }
    return make_report(**{**parts, **changes})


LEVEL = 2540.0
SURFACE = Surface(
    form="product",
    axes=["prompt_tokens", "concurrency"],
    coefficients={
        "prompt_tokens": Estimate(value=1.0, low=1.0, high=1.0),
        "concurrency": Estimate(value=1.0, low=1.0, high=1.0),
        "level": Estimate(value=LEVEL, low=2410.0, high=2660.0),
    },
)


def make_surface_report(**changes: Any) -> Report:
    """Prompt length x concurrency in rounds: coarse cells, then some near a capacity surface."""
    coarse = [(prompt, many) for prompt in (64, 128, 256, 512) for many in (2, 4, 8, 16, 32)]
    refined = [(181, 14), (300, 8), (340, 8), (620, 4), (90, 28)]
    states: tuple[CellState, ...] = ("converged", "converged", "wide", "nonstationary", "saturated")
    cells = []
    for i, (prompt, many) in enumerate((*coarse, *refined)):
        seconds = (0.012 + prompt * 1.4e-4 + many * 5e-4) * (2.4 if prompt * many > LEVEL else 1.0)
        state = states[i % len(states)] if i > 12 else "converged"
        stop = StopFigures(
            half_width=None if state == "saturated" else 0.04 if state == "converged" else 0.11,
            n_needed=None if state == "saturated" else 0 if state == "converged" else 1400,
            n_starts=3,
            r_hat=1.004,
            n_cut=12,
        )
        factors: dict[str, Factor] = {"prompt_tokens": prompt, "concurrency": many}
        cells.append(make_cell(f"c{i:02d}", factors, seconds, state=state, stop=stop))
    cells[13] = open_cell(cells[13], value=None, low=0.11)
    ids = [cell.id for cell in cells]
    parts: dict[str, Any] = {
        "run": make_run(scenario="kv-surface", title="Prompt length x concurrency, in rounds"),
        "cells": cells,
        "breakpoints": [make_surface()],
        "comparison": None,
        "rounds": [
            Round(number=1, why=["grid"], cells=ids[:20], n_requests=2560),
            Round(number=2, why=["precision", "refine"], cells=ids[18:], n_requests=1800),
            Round(number=3, why=["confirm"], cells=ids[20:22], n_requests=512),
        ],
        "verdict": Verdict(status="pass", text=break_sentence(make_surface())),
    }
    return make_report(**{**parts, **changes})


def make_surface(**changes: Any) -> Breakpoint:
    """A capacity surface over two axes."""
    parts: dict[str, Any] = {
        "kind": "surface",
        "axes": list(SURFACE.axes),
        "surface": SURFACE,
        "at": {},
        "location": None,
        "low": None,
        "high": None,
    }
    return make_jump(**{**parts, **changes})


SETS: dict[bool | str, float] = {
    False: 1.0,
    "paged_kv": 0.71,
    "paged_kv,prefix_cache": 0.55,
    "adaptive_batching": 0.88,
    "async_store": 0.97,
    "gc_tuned": 1.12,
    True: 0.44,
}


def make_ledger_report(**changes: Any) -> Report:
    """An ablation: what each set of features does at one workload, and what it adds."""
    asked = list(SETS)
    cells = [
        make_cell(f"c{i:02d}", {"accelerated": value}, 0.129 * SETS[value])
        for i, value in enumerate(asked)
    ]
    pairs = [(0, after) for after in range(1, len(cells))]
    pairs[2:2], pairs[7:7] = [(1, 2)], [(2, 6)]
    ledger = [
        LedgerRow(
            features=asked[after],
            over=asked[before],
            at={},
            cell=cells[after].id,
            reference=cells[before].id,
            metrics=[
                compare(metric, quantile, cells[before], cells[after])
                for metric in LEDGER_METRICS
                for quantile in ("p99", "p50")
            ],
        )
        for before, after in pairs
    ]
    rows = [item for row in ledger if row.over is False for item in row.metrics]
    parts: dict[str, Any] = {
        "run": make_run(scenario="ablation", title="What each accelerated feature changes"),
        "analysis": Analysis(metric="e2e_s", q=0.99, confidence=0.95, axis="accelerated"),
        "verdict": Verdict(
            status="pass",
            text="E2E P99 beside the baseline: faster in 4 of 6 cells, most with accelerated "
            "(2.20x, 2.05 to 2.36); slower in 1, undecided in 1.",
        ),
        "cells": cells,
        "breakpoints": [],
        "comparison": Comparison(
            reference="baseline", candidate="accelerated", metrics=rows, ledger=ledger
        ),
    }
    return make_report(**{**parts, **changes})


def make_paths_report(**changes: Any) -> Report:
    """Two factors, penalty and batch, on both paths."""
    cells = [
        make_cell(
            f"c{number:02d}",
            {"frequency_penalty": penalty, "concurrency": batch, "accelerated": accelerated},
            (0.02 + 0.006 * batch) * (1 + 0.2 * (penalty > 0)) * (0.6 if accelerated else 1),
        )
        for number, (penalty, batch, accelerated) in enumerate(
            product((0.0, 0.5), (2, 8), (False, True))
        )
    ]
    parts: dict[str, Any] = {
        "run": make_run(scenario="paths", title="Penalty x batch, baseline beside accelerated"),
        "analysis": Analysis(metric="ttft_s", q=0.99, confidence=0.95, axis="accelerated"),
        "cells": cells,
        "breakpoints": [],
        "comparison": make_comparison(cells),
    }
    return make_report(**{**parts, **changes})


def make_run(**changes: Any) -> Run:
    """Which run it is."""
    parts: dict[str, Any] = {
        "id": "20261130-021500-quickstart",
        "scenario": "quickstart",
        "title": "Prompt length against TTFT P99, baseline beside accelerated",
        "target": "http://127.0.0.1:8100",
        "started": "2026-11-30T02:15:00+00:00",
        "status": "complete",
        "duration_s": 192.4,
        "n_requests": 7168,
    }
    return Run(**{**parts, **changes})


def make_validity(**changes: Any) -> Validity:
    """A run that measured well."""
    parts: dict[str, Any] = {
        "stamps": "kernel",
        "rx_lag_p99_s": 0.00042,
        "dispatch_lag_p99_s": 0.00031,
        "dispatch_lag_share_max": 0.004,
        "late_read_share": 0.004,
        "coalesced_share": 0.0012,
        "offered_rps": None,
        "sent_rps": 41.7,
        "client_cpu_share": 0.23,
        "clock_steps": 0,
        "prompt_length_exact_share": 1.0,
        "output_length_exact_share": 1.0,
        "caveats": [],
    }
    return Validity(**{**parts, **changes})


def make_cell(cell_id: str, factors: dict[str, Factor], p99_s: float, **changes: Any) -> Cell:
    """A cell whose numbers follow from its TTFT P99."""
    asked = factors.get("prompt_tokens", 128)
    prompt = 128.0 if isinstance(asked, str) else float(asked)
    base_s = 0.011 + prompt * 1.15e-4
    wait_s = max(0.0, p99_s - 1.25 * base_s)
    itl_s = 0.0021 + (0.0011 if not factors.get("accelerated") else 0.0004) * prompt / 368
    phases = {
        "queue": 0.0016,
        "kv_wait": wait_s * 0.86,
        "tokenize": 0.0002,
        "embed": 0.0004,
        "mask": 0.0001,
        "attention": base_s * 0.42 + wait_s * 0.09,
        "ffn": base_s * 0.38 + wait_s * 0.04,
        "kv": base_s * 0.05,
        "sample": 0.0011,
        "detokenize": 0.0001,
        "stream": 0.0009,
        "network": 0.0003,
    }
    parts: dict[str, Any] = {
        "id": cell_id,
        "factors": factors,
        "state": "fixed",
        "n": 512,
        "n_effective": 448.0,
        "outcomes": {"ok": 512},
        "metrics": {
            "ttft_s": around(base_s * 0.8 + wait_s * 0.3, base_s + wait_s * 0.62, p99_s),
            "itl_s": around(itl_s * 0.7, itl_s, itl_s * 1.9),
            "e2e_s": around(base_s + 8 * itl_s, p99_s * 0.9 + 9 * itl_s, p99_s + 13 * itl_s),
            "tpot_s": around(itl_s * 0.8, itl_s, itl_s * 1.3),
        },
        "phases_mean_s": {name: round(0.4 * s, 7) for name, s in phases.items()},
        "phases_tail_s": {name: round(s, 7) for name, s in phases.items()},
        "sent_rps": 42.0,
        "completed_rps": round(8 / (p99_s * 0.8 + 8 * itl_s), 2),
        "tokens": TokenCounts(prompt_mean=prompt, output_mean=8.02, count_source="server usage"),
        "features": ["x-mc-accel"] if factors.get("accelerated") else [],
        "caveats": [],
    }
    return Cell(**{**parts, **changes})


def around(p50: float, p90: float, p99: float) -> dict[str, Estimate]:
    """Three quantiles with intervals of a few per cent."""
    return {
        "p50": estimate(p50, 0.99, 1.01),
        "p90": estimate(p90, 0.97, 1.035),
        "p99": estimate(p99, 0.94, 1.085),
    }


def estimate(value: float, low: float, high: float) -> Estimate:
    """A value with bounds given as factors."""
    return Estimate(value=round(value, 7), low=round(value * low, 7), high=round(value * high, 7))


def make_jump(**changes: Any) -> Breakpoint:
    """The baseline's jump, KV memory behind it."""
    parts: dict[str, Any] = {
        "metric": "ttft_s",
        "q": 0.99,
        "axis": "prompt_tokens",
        "at": {"accelerated": False},
        "kind": "jump",
        "location": 240.0,
        "low": 224.0,
        "high": 256.0,
        "effect": 1.48,
        "effect_low": 1.2,
        "effect_high": 1.71,
        "width_octaves": 0.1,
        "component": "kv_wait",
        "share": 0.82,
        "share_low": 0.75,
        "share_high": 0.88,
        "ranked": [
            RankedComponent(component="kv_wait", share=0.82, low=0.75, high=0.88),
            RankedComponent(component="attention", share=0.09, low=0.05, high=0.14),
            RankedComponent(component="ffn", share=0.05, low=0.02, high=0.09),
            RankedComponent(component="queue", share=0.02, low=-0.02, high=0.05),
        ],
        "detectable_effect": 0.25,
        "caveats": [],
    }
    return Breakpoint(**{**parts, **changes})


def make_gradual(**changes: Any) -> Breakpoint:
    """The accelerated path's gradual rise."""
    parts: dict[str, Any] = {
        "at": {"accelerated": True},
        "kind": "gradual",
        "location": 153.0,
        "low": 64.0,
        "high": 368.0,
        "effect": 3.5,
        "effect_low": 3.1,
        "effect_high": 3.9,
        "width_octaves": 2.5,
        "component": None,
        "share": None,
        "share_low": None,
        "share_high": None,
        "ranked": [],
    }
    return make_jump(**{**parts, **changes})


def make_comparison(cells: list[Cell]) -> Comparison:
    """Accelerated over baseline in every pair of cells."""
    pairs = list(zip(cells[::2], cells[1::2], strict=True))
    rows = [
        compare(metric, quantile, reference, candidate)
        for metric in (*METRICS, "tpot_s")
        for quantile in QUANTILES
        for reference, candidate in pairs
    ]
    return Comparison(
        reference="baseline", candidate="accelerated", metrics=rows, answers=[make_answers()]
    )


def make_answers(**changes: Any) -> Answers:
    """The accelerated path was compared before the load, and is the same."""
    parts: dict[str, Any] = {
        "asked": True,
        "verdict": "same",
        "said": "compared before the load: the same answers as the baseline",
        "problems": [],
    }
    return Answers(**{**parts, **changes})


def make_hard_report(**changes: Any) -> Report:
    """Everything that can be missing or doubtful at once, and still a report."""
    cells = list(make_report().cells)
    cells[9] = open_cell(cells[9], value=0.061, low=0.052)
    cells[11] = open_cell(cells[11], value=0.07, low=None)
    cells[13] = open_cell(cells[13], value=None, low=0.118)
    cells[12] = cells[12].model_copy(
        update={"state": "invalid-client", "caveats": ["dispatch lag P99 9 ms, limit 1.76 ms"]}
    )
    cells[2] = cells[2].model_copy(
        update={
            "state": "failed",
            "n": 0,
            "n_effective": None,
            "metrics": {},
            "outcomes": {"connect_error": 500, "http_error": 12},
            "phases_tail_s": {},
            "completed_rps": None,
            "tokens": TokenCounts(prompt_mean=None, output_mean=None, count_source=None),
        }
    )
    parts: dict[str, Any] = {
        "run": make_run(status="partial", duration_s=None),
        "verdict": Verdict(status="undecided", text="Too few requests to tell the paths apart."),
        "validity": make_validity(
            stamps="user",
            dispatch_lag_p99_s=0.009,
            dispatch_lag_share_max=0.03,
            late_read_share=None,
            offered_rps=50.0,
            client_cpu_share=0.97,
            caveats=["Receive stamps are taken by the client: the kernel offers none here."],
        ),
        "cells": cells,
        "breakpoints": [
            make_jump(
                high=None, location=None, effect_high=None, component=None, share=None,
                share_low=None, share_high=None,
                ranked=[
                    RankedComponent(component="kv_wait", share=0.55, low=0.3, high=None),
                    RankedComponent(component="attention", share=0.31, low=0.1, high=0.6),
                ],
            ),
            make_jump(at={"accelerated": True}, kind="kink", low=310.0, high=330.0,
                      location=320.0, effect=0.2, effect_low=0.1, effect_high=0.3),
            make_gradual(metric="e2e_s"),
        ],
        "comparison": Comparison(
            reference="baseline",
            candidate="accelerated",
            metrics=[
                ComparedMetric(metric="ttft_s", q=0.99, cell="c09", ratio=0.47, low=0.4, high=None,
                               verdict="undecided"),
                ComparedMetric(metric="itl_s", q=0.99, cell="c09", ratio=1.21, low=1.1, high=1.33,
                               verdict="slower"),
                ComparedMetric(metric="ttft_s", q=0.99, cell="c03", ratio=None, low=None,
                               high=None, verdict="undecided"),
            ],
        ),
    }  # fmt: skip
    return make_report(**{**parts, **changes})


def open_cell(cell: Cell, *, value: float | None, low: float | None) -> Cell:
    """The cell with few requests, so that the upper bound of its TTFT P99 is open."""
    ttft = {**cell.metrics["ttft_s"], "p99": Estimate(value=value, low=low, high=None)}
    return cell.model_copy(
        update={
            "n": 128,
            "n_effective": 120.0,
            "state": "wide",
            "outcomes": {"ok": 128},
            "metrics": {**cell.metrics, "ttft_s": ttft},
            "caveats": ["120 effective requests, 368 are needed for a finite interval of P99"],
        }
    )


def compare(metric: MetricName, quantile: Quantile, before: Cell, after: Cell) -> ComparedMetric:
    """The ratio of two cells with an interval of some per cent."""
    reference, candidate = before.metrics[metric][quantile], after.metrics[metric][quantile]
    assert reference.value is not None
    assert candidate.value is not None
    ratio = candidate.value / reference.value
    wide = 1.072 if quantile == "p99" else 1.02
    low, high = ratio / wide, ratio * wide
    decided = "faster" if high < 1 else "slower" if low > 1 else "undecided"
    return ComparedMetric(
        metric=metric,
        q=QUANTILES[quantile],
        cell=after.id,
        ratio=round(ratio, 4),
        low=round(low, 4),
        high=round(high, 4),
        verdict="same" if low > 0.95 and high < 1.05 else decided,
    )
