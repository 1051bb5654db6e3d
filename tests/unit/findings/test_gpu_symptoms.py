"""Rules on GPUs: each finds what was planted, with its numbers, and is silent where all is well."""

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest

from harness.findings.symptoms import (
    gpu_bandwidth,
    gpu_errors,
    gpu_straggler,
    gpu_throttled,
    nvlink_uneven,
)
from harness.findings.symptoms.symptom import Context, Rule, Symptom
from harness.metrics.window import Telemetry, Window

N_GPUS, N_LINKS, N_SAMPLES = 4, 6, 40
RULES: tuple[Rule, ...] = (
    gpu_bandwidth.check, gpu_errors.check, gpu_straggler.check, gpu_throttled.check,
    nvlink_uneven.check,
)  # fmt: skip
Labels = dict[str, str]
Fault = Callable[[str, Labels, int, float], float | None]
"""A value in place of the healthy one: of a metric, a series, a second."""


def healthy(name: str, second: int, rng: np.random.Generator) -> float:
    """Four GPUs of one job with a little noise."""
    noise = float(rng.normal(1, 0.02))
    return {
        "mc_gpu_up": 1.0,
        "mc_gpu_utilisation_ratio": min(1.0, 0.9 * noise),
        "mc_gpu_sm_active_ratio": 0.7 * noise,
        "mc_gpu_dram_active_ratio": 0.6 * noise,
        "mc_gpu_clock_hertz": 1.98e9 * float(rng.normal(1, 0.003)),
        "mc_gpu_throttled": 0.0,
        "mc_gpu_nvlink_up": 1.0,
        "mc_gpu_nvlink_bytes_total": 2e9 * second * float(rng.normal(1, 1e-4)),
        "mc_gpu_nvlink_errors_total": 0.0,
    }[name]


def series() -> list[tuple[str, str, Labels]]:
    """Name, kind and labels of everything."""
    found: list[tuple[str, str, Labels]] = []
    for number in range(N_GPUS):
        gpu = {"gpu": str(number), "uuid": f"GPU-{number}"}
        found += [
            ("mc_gpu_up", "gauge", gpu),
            ("mc_gpu_utilisation_ratio", "gauge", gpu),
            ("mc_gpu_sm_active_ratio", "gauge", gpu),
            ("mc_gpu_dram_active_ratio", "gauge", {**gpu, "source": "gpm"}),
            ("mc_gpu_clock_hertz", "gauge", {**gpu, "clock": "sm"}),
            ("mc_gpu_throttled", "gauge", {**gpu, "reason": "sw_power_cap"}),
        ]
        for link in range(N_LINKS):
            one = {**gpu, "nvlink": str(link)}
            peer = str((number + (1 if link < N_LINKS // 2 else -1)) % N_GPUS)
            found += [
                ("mc_gpu_nvlink_up", "gauge", {**one, "peer": peer}),
                ("mc_gpu_nvlink_bytes_total", "counter", {**one, "direction": "tx"}),
                ("mc_gpu_nvlink_errors_total", "counter", {**one, "kind": "replay"}),
            ]
    return found


def window(
    seed: int = 1, fault: Fault | None = None, extra: Sequence[tuple[str, Labels, float]] = ()
) -> Window:
    """A minute of telemetry, with a fault planted."""
    rng = np.random.default_rng(seed)
    rows = []
    for name, kind, labels in series():
        for second in range(N_SAMPLES):
            value = healthy(name, second, rng)
            planted = fault(name, labels, second, value) if fault else None
            rows.append((second, name, labels, value if planted is None else planted, kind))
    for name, labels, value in extra:
        rows += [(0, name, labels, 0.0, "counter"), (30, name, labels, value, "counter")]
    frame = pd.DataFrame(
        {
            "time_unix_ns": [(1_700_000_000 + row[0]) * 10**9 for row in rows],
            "source": "gpus",
            "name": [row[1] for row in rows],
            "labels": [tuple(sorted(row[2].items())) for row in rows],
            "value": [row[3] for row in rows],
            "kind": [row[4] for row in rows],
        }
    )
    return Telemetry(frame).window()


def of(number: int, name: str, value: float) -> Fault:
    """One gauge of one GPU, all the time."""
    return lambda metric, labels, _second, _value: (
        value if metric == name and labels["gpu"] == str(number) else None
    )


def both(*faults: Fault) -> Fault:
    """The first that has something to say."""
    return lambda *given: next(
        (value for fault in faults if (value := fault(*given)) is not None), None
    )


def found(
    rule: Rule, fault: Fault, normal: Fault | None = None, *, compare: bool = False
) -> Symptom:
    """The symptom that a rule must find."""
    symptom = rule(Context(fault=window(2, fault), normal=window(3, normal) if compare else None))
    assert symptom is not None
    assert symptom.strength >= 1
    return symptom


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_machine_has_no_symptom(rule: Rule, seed: int) -> None:
    """With noise, alone and beside another healthy window."""
    assert rule(Context(fault=window(seed))) is None
    assert rule(Context(fault=window(seed), normal=window(seed + 100))) is None


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_said_of_what_is_not_there(rule: Rule) -> None:
    """No window, or one in which no GPU is told."""
    assert rule(Context()) is None
    empty = window().telemetry.of_source("gpus").window((0.0, 1.0))
    assert rule(Context(fault=empty)) is None


WAITING = both(of(2, "mc_gpu_dram_active_ratio", 0.95), of(2, "mc_gpu_sm_active_ratio", 0.34))


def test_a_gpu_that_waits_for_its_memory_is_bandwidth_bound() -> None:
    """DRAM 95 %, SM 34 %: all of the time, which is 1.25 times the limit."""
    symptom = found(gpu_bandwidth.check, WAITING)
    assert symptom.name == "gpu_bandwidth"
    assert symptom.seen.startswith("GPU 2: bandwidth-bound 100 % of the time")
    assert symptom.strength == pytest.approx(1 / 0.8)
    values = {each.what: each.value for each in symptom.evidence}
    assert values["DRAM activity"] == pytest.approx(0.95)
    assert values["SM activity"] == pytest.approx(0.34)


def test_busy_processors_are_not_bandwidth_bound() -> None:
    """DRAM 95 % beside SM 70 %: both are used."""
    assert (
        gpu_bandwidth.check(Context(fault=window(fault=of(2, "mc_gpu_dram_active_ratio", 0.95))))
        is None
    )


def test_bandwidth_must_be_sustained() -> None:
    """Half of the time is not enough; the limit is an argument."""

    def half(metric: str, labels: Labels, second: int, value: float) -> float | None:
        return WAITING(metric, labels, second, value) if second % 2 else None

    context = Context(fault=window(fault=half))
    assert gpu_bandwidth.check(context) is None
    symptom = gpu_bandwidth.check(context, sustained=0.4)
    assert symptom is not None
    assert symptom.evidence[0].value == pytest.approx(0.5)
    assert gpu_bandwidth.check(context, sustained=0.4, dram=0.96) is None
    assert gpu_bandwidth.check(context, sustained=0.4, busy=0.3) is None


def test_without_sm_activity_utilisation_decides() -> None:
    """The published condition: memory over 92 %, utilisation under 60 %."""
    low = both(of(1, "mc_gpu_dram_active_ratio", 0.95), of(1, "mc_gpu_utilisation_ratio", 0.5))
    whole = window(fault=low).telemetry
    frame = whole._frame[whole._frame["name"] != "mc_gpu_sm_active_ratio"].reset_index(drop=True)
    symptom = gpu_bandwidth.check(Context(fault=Telemetry(frame).window()))
    assert symptom is not None
    assert "GPU 1" in symptom.seen
    assert "utilisation 50 %" in symptom.seen


def slow_link(factor: float) -> Fault:
    """Link 4 of GPU 1 carries this many times what it should."""

    def fault(metric: str, labels: Labels, _second: int, value: float) -> float | None:
        is_it = labels.get("nvlink") == "4" and labels["gpu"] == "1"
        return factor * value if is_it and metric == "mc_gpu_nvlink_bytes_total" else None

    return fault


@pytest.mark.parametrize(("factor", "times"), [(0.25, 4), (3.0, 3)])
def test_a_link_unlike_its_bundle_is_named(factor: float, times: float) -> None:
    """Less or more than the median of the links to the same neighbour."""
    symptom = found(nvlink_uneven.check, slow_link(factor))
    assert symptom.seen.startswith("GPU 1 link 4 carries")
    assert symptom.evidence[0].value == pytest.approx(times, rel=0.01)


def test_what_is_uneven_in_normal_times_too_is_no_symptom() -> None:
    """A machine whose links are used that way."""
    context = Context(fault=window(2, slow_link(0.25)), normal=window(3, slow_link(0.25)))
    assert nvlink_uneven.check(context) is None
    assert nvlink_uneven.check(Context(fault=context.fault, normal=window(3))) is not None


def test_a_gpu_whose_ring_carries_less_is_named() -> None:
    """All links of GPU 3 at a third; the links that are down are told."""

    def fault(metric: str, labels: Labels, second: int, value: float) -> float | None:
        if labels["gpu"] != "3":
            return None
        if metric == "mc_gpu_nvlink_up" and labels["nvlink"] == "5":
            return 0.0 if second > 10 else None
        return value / 3 if metric == "mc_gpu_nvlink_bytes_total" else None

    symptom = found(nvlink_uneven.check, fault)
    assert symptom.seen.startswith("GPU 3 carries 4")
    assert "GPU 3 link 5" in symptom.seen


def test_an_idle_gpu_is_no_straggler() -> None:
    """A GPU that is no part of the job clocks low and sends nothing."""

    def idle(metric: str, labels: Labels, _second: int, _value: float) -> float | None:
        if labels["gpu"] != "0":
            return None
        return {
            "mc_gpu_utilisation_ratio": 0.0, "mc_gpu_sm_active_ratio": 0.0,
            "mc_gpu_clock_hertz": 345e6, "mc_gpu_nvlink_bytes_total": 0.0,
        }.get(metric)  # fmt: skip

    context = Context(fault=window(fault=idle))
    assert gpu_straggler.check(context) is None
    assert nvlink_uneven.check(context) is None


def test_a_gpu_that_clocks_low_is_a_straggler() -> None:
    """1410 of 1980 MHz is 29 % below, nearly three times the limit."""
    symptom = found(gpu_straggler.check, of(2, "mc_gpu_clock_hertz", 1.41e9))
    assert symptom.seen.startswith("GPU 2 clocks at 1410 MHz")
    assert symptom.strength == pytest.approx((1 - 1410 / 1980) / 0.1, rel=0.01)


@pytest.mark.parametrize(("activity", "cause"), [(0.3, "waits"), (0.95, "more to do")])
def test_a_gpu_with_other_work_is_a_straggler(activity: float, cause: str) -> None:
    """Starved, or with more to do than those that wait for it."""
    symptom = found(gpu_straggler.check, of(1, "mc_gpu_sm_active_ratio", activity))
    assert symptom.seen.startswith("GPU 1's SM activity")
    assert cause in symptom.cause


def test_a_straggler_that_always_was_is_no_symptom() -> None:
    """The same GPU, as far away, in the normal window."""
    slow = of(2, "mc_gpu_clock_hertz", 1.41e9)
    context = Context(fault=window(2, slow), normal=window(3, slow))
    assert gpu_straggler.check(context) is None


def test_xids_are_told_by_code_and_a_lost_gpu_first() -> None:
    """Two XID 79 and GPU 3 gone: hardware."""
    gone = of(3, "mc_gpu_up", 0.0)
    xid = ("mc_gpu_xid_errors_total", {"gpu": "3", "uuid": "GPU-3", "xid": "79"}, 2.0)
    symptom = gpu_errors.check(Context(fault=window(1, gone, [xid])))
    assert symptom is not None
    assert symptom.seen == (
        "GPU 3 gone: no answer any more; XID 79 2 times (the GPU has fallen off the bus)."
    )
    assert symptom.cause.startswith("Hardware")
    assert symptom.strength == 3


def test_a_gpu_that_was_gone_before_is_no_symptom() -> None:
    """GPU 3 gone in both windows; gone in the fault alone it is one."""
    gone = of(3, "mc_gpu_up", 0.0)
    assert gpu_errors.check(Context(fault=window(1, gone), normal=window(2, gone))) is None
    assert gpu_errors.check(Context(fault=window(1, gone), normal=window(2))) is not None


def test_a_memory_that_always_was_the_limit_is_no_symptom() -> None:
    """Bandwidth-bound in both windows; in the fault alone it is told."""
    assert gpu_bandwidth.check(Context(fault=window(1, WAITING), normal=window(2, WAITING))) is None
    assert gpu_bandwidth.check(Context(fault=window(1, WAITING), normal=window(2))) is not None


def test_a_programs_xid_is_the_programs() -> None:
    """XID 31 alone is an illegal access."""
    xid = ("mc_gpu_xid_errors_total", {"gpu": "0", "uuid": "GPU-0", "xid": "31"}, 1.0)
    symptom = gpu_errors.check(Context(fault=window(1, None, [xid])))
    assert symptom is not None
    assert symptom.cause.startswith("A program's own fault")


def test_a_power_cap_is_a_symptom_only_where_it_has_grown() -> None:
    """At full load it is usual: alone, or beside as much of it, it says nothing."""
    capped = of(1, "mc_gpu_throttled", 1.0)
    assert gpu_throttled.check(Context(fault=window(2, capped))) is None
    assert gpu_throttled.check(Context(fault=window(2, capped), normal=window(3, capped))) is None
    symptom = found(gpu_throttled.check, capped, compare=True)
    assert symptom.seen.startswith("GPU 1 is throttled 100 % of the time: sw_power_cap")
