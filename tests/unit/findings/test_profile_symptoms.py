"""The three anti-patterns, planted in profiles and in a real loop under the torch profiler."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from harness.findings.symptoms import Context, candidate_copies, repeated_rewards, tiny_kernels
from harness.findings.symptoms.symptom import Rule
from harness.importers.profile_file import read_profile
from harness.records.profile import Event, Profile, to_frame

RULES: dict[str, Rule] = {
    "candidate_copies": candidate_copies.check,
    "tiny_kernels": tiny_kernels.check,
    "repeated_rewards": repeated_rewards.check,
}
LAYER = ("norm", "qkv", "rope", "attention", "out", "add", "norm", "up", "gelu", "down", "add")
LARGE = frozenset({"qkv", "attention", "up", "down"})


def step(rng: np.random.Generator, begin_s: float, planted: str) -> list[Event]:
    """A decode step of 32 layers: large and small kernels, ids to the host; and what is planted."""
    events, at = [], begin_s
    for name in LAYER * 32:
        spent = rng.uniform(40e-6, 60e-6) if name in LARGE else rng.uniform(2e-6, 5e-6)
        events.append(Event("kernel", name, at, spent))
        at += spent + 1e-6
    if planted == "candidate_copies":
        events.append(Event("copy", "device to host", at, 3e-4, 8 << 20))
        events.append(Event("copy", "host to device", at + 7e-4, 3e-4, 8 << 20))
        at += 1e-3
    if planted == "tiny_kernels":
        for _ in range(200):
            events += [Event("kernel", name, at, 3e-6) for name in ("mul", "sum", "sqrt", "div")]
            at += 2.4e-5
    n_calls = 16 if planted == "repeated_rewards" else 1
    for _ in range(n_calls):
        events.append(Event("span", "reward_model", at, 1.5e-4))
        at += 1.6e-4
    events.append(Event("copy", "device to host", at, 5e-6, 128))
    events.append(Event("copy", "host to device", at + 1e-5, 5e-6, 256))
    return [Event("step", "step", begin_s, at + 2e-5 - begin_s), *events]


def loop(seed: int, planted: str = "") -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return to_frame([event for i in range(10) for event in step(rng, i * 0.05, planted)])


def found(events: pd.DataFrame) -> list[str]:
    context = Context(profiles={"a.json": events})
    return [name for name, rule in RULES.items() if rule(context)]


@pytest.mark.parametrize("planted", RULES)
def test_what_is_planted_is_named_and_nothing_else(planted: str) -> None:
    """Each anti-pattern in a loop of layers fires its own rule alone."""
    assert found(loop(1, planted)) == [planted]


@pytest.mark.parametrize("seed", range(6))
def test_a_healthy_loop_has_no_symptom(seed: int) -> None:
    """Small kernels between large ones, token ids copied, one reward a step."""
    assert found(loop(seed)) == []


def test_the_figures_are_those_of_the_plant() -> None:
    """Round trips: one a step of 1 ms in about 8.4; rewards: 16 a step."""
    copies = candidate_copies.check(Context(profiles={"a.json": loop(1, "candidate_copies")}))
    assert copies is not None
    assert copies.evidence[1].value == 10
    assert copies.evidence[2].value == 10 * (16 << 20)
    steps = loop(1, "candidate_copies").query("category == 'step'")["duration_s"].sum()
    assert copies.evidence[0].value == pytest.approx(10 * 1e-3 / steps)
    rewards = repeated_rewards.check(Context(profiles={"a.json": loop(1, "repeated_rewards")}))
    assert rewards is not None
    assert rewards.evidence[1].value == 16


@pytest.mark.parametrize(("n_tiny", "named"), [(90, []), (120, ["tiny_kernels"])])
def test_a_short_run_of_tiny_kernels_is_no_symptom(n_tiny: int, named: list[str]) -> None:
    """What a sampler launches in a row is no loop over pairs."""
    events = [Event("kernel", "gemm", 0.0, 1e-3)]
    events += [Event("kernel", f"k{i % 3}", 1e-3 + i * 1e-5, 5e-6) for i in range(n_tiny)]
    events.append(Event("kernel", "gemm", 1e-3 + n_tiny * 1e-5, 1e-3))
    assert found(to_frame(events)) == named


def test_rewards_without_steps_are_not_judged() -> None:
    """Calls a step cannot be told where no step is."""
    events = loop(1, "repeated_rewards").query("category != 'step'")
    assert repeated_rewards.check(Context(profiles={"a.json": events})) is None
    assert found(to_frame([])) == []


def traced(path: Path, work: Callable[[], object]) -> Profile:
    """Three steps of this under the torch profiler."""
    steps = schedule(wait=0, warmup=1, active=3, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=steps) as seen:
        for _ in range(4):
            work()
            seen.step()
    seen.export_chrome_trace(str(path))
    read = read_profile(path)
    assert isinstance(read, Profile)
    return read


def test_a_real_loop_over_pairs_is_told_from_one_product(tmp_path: Path) -> None:
    """Cosine similarity of 16 candidates, pair by pair and at once, as torch really records it."""
    candidates = torch.randn(16, 64)

    def pairwise() -> None:
        for one in range(16):
            for two in range(16):
                torch.cosine_similarity(candidates[one], candidates[two], dim=0)

    def at_once() -> None:
        rows = torch.nn.functional.normalize(candidates, dim=1)
        torch.mm(rows, rows.T)

    looped = traced(tmp_path / "pairs.json.gz", pairwise).events
    symptom = tiny_kernels.check(Context(profiles={"pairs": looped}))
    assert symptom is not None
    assert symptom.evidence[1].value == 3 * 256 * 3  # two rows taken, one similarity
    assert found(looped) == ["tiny_kernels"]
    assert found(traced(tmp_path / "once.json.gz", at_once).events) == []


def test_a_real_reward_called_for_each_candidate_is_named(tmp_path: Path) -> None:
    """Eight named calls a step, as torch really records them; one batched call is silent."""
    weights, candidates = torch.randn(256, 256), torch.randn(8, 256)

    def reward(rows: torch.Tensor) -> torch.Tensor:
        with record_function("reward_model"):
            return torch.mm(rows, weights)

    one_by_one = traced(tmp_path / "a.json", lambda: [reward(row[None]) for row in candidates])
    symptom = repeated_rewards.check(Context(profiles={"a": one_by_one.events}))
    assert symptom is not None
    assert symptom.evidence[1].value == 8
    assert found(traced(tmp_path / "b.json", lambda: reward(candidates)).events) == []
