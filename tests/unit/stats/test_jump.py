"""Jumps of a sequence: found on the third sample, not in noise, and told with their numbers."""

from collections.abc import Sequence

import numpy as np
import pytest

from harness.stats import jump as jump_module
from harness.stats.jump import IN_A_ROW, LEAST, Jump, JumpWatch


def jumps(samples: Sequence[float | None]) -> list[tuple[int, Jump]]:
    watch = JumpWatch()
    found = [(place, watch.add(sample)) for place, sample in enumerate(samples)]
    return [(place, jump) for place, jump in found if jump is not None]


def test_the_third_sample_in_a_row_is_the_jump() -> None:
    """Ten of 100, then 120: one answer, on the third, with baseline and limit."""
    ((place, jump),) = jumps([100.0] * 10 + [120.0] * 3)
    assert place == 12
    assert jump == Jump(samples=(120.0,) * 3, baseline=100.0, limit=115.0)


def test_two_in_a_row_or_fifteen_per_cent_are_none() -> None:
    """The limit itself is not beyond it, and a single good sample ends a row."""
    assert jumps([100.0] * 10 + [115.0] * 9) == []
    assert jumps([100.0] * 10 + [150.0, 150.0, 100.0] * 6) == []
    assert jumps([100.0] * 10 + [50.0] * 9) == [], "faster is no jump"


def test_too_few_samples_say_nothing() -> None:
    """Without a baseline anything may be usual."""
    assert jumps([100.0] * (LEAST - 1) + [900.0] * 2) == []


def test_a_missing_sample_neither_counts_nor_breaks() -> None:
    """An interval without a request is no evidence either way."""
    ((place, _),) = jumps([100.0] * 10 + [130.0, None, 130.0, None, None, 130.0])
    assert place == 15
    assert jumps([100.0] * 10 + [130.0, 130.0, None, None, None]) == []


def test_the_new_level_becomes_the_baseline() -> None:
    """It fires until the level is what it lately was, and not for ever."""
    found = jumps([100.0] * 30 + [130.0] * 60)
    assert 1 <= len(found) <= 5 + 1
    assert found[0][0] == 30 + IN_A_ROW - 1
    assert found[-1][0] < 30 + 20


@pytest.mark.parametrize("scatter", [0.05, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_jump(scatter: float, seed: int) -> None:
    """A thousand log-normal samples: the published rule alone would fire at 10 % and above."""
    rng = np.random.default_rng(seed)
    samples = [float(each) for each in 100 * rng.lognormal(0, scatter, 1000)]
    assert len(jumps(list(samples))) <= (0 if scatter <= 0.1 else 1 if scatter <= 0.3 else 4)


@pytest.mark.parametrize("seed", range(20))
def test_a_jump_in_noise_is_found(seed: int) -> None:
    """Half as much again on samples that scatter by 8 %: within six samples of its begin."""
    rng = np.random.default_rng(seed)
    level = np.repeat([100.0, 150.0], [60, 20])
    found = jumps([float(each) for each in level * rng.lognormal(0, 0.08, 80)])
    assert found
    assert 62 <= found[0][0] <= 66


def test_the_published_rule_alone_fires_on_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 samples that scatter by 30 %: over fifty jumps without the second limit, four with."""
    samples = [float(each) for each in 100 * np.random.default_rng(1).lognormal(0, 0.3, 5000)]
    assert len(jumps(samples)) <= 4
    monkeypatch.setattr(jump_module, "SCATTERS", 0.0)
    assert len(jumps(samples)) > 50
