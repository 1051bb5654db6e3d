import math
from typing import Any

import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels.backend import Backend, record_calls
from kernels.depth_clip import (
    clip_depth_field,
    clip_logits,
    reference_clip_depth_field,
    reference_clip_logits,
)
from kernels.sampling import build_settings, probabilities
from tests.kernel_builds import each_build, use


@pytest.fixture(params=each_build.args[1])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return use(request.param, monkeypatch)


def field(shape: tuple[int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A slope with noise, outliers, holes in the mask and numbers that are none."""
    rng = generator(seed, "depth")
    depth = np.linspace(1, 8, shape[1])[None, :] + rng.normal(0, 0.05, shape)
    outlier = rng.random(shape) < 0.05
    depth[outlier] *= rng.choice([0.0, 3.0, -1.0], outlier.sum())
    depth[rng.random(shape) < 0.02] = np.nan
    depth[rng.random(shape) < 0.02] = np.inf
    return depth.astype(np.float32), rng.random(shape) > 0.1


@pytest.mark.parametrize("shape", [(1, 1), (1, 40), (33, 2), (24, 31)])
@pytest.mark.parametrize(
    "options",
    [
        {"window": 3, "n_sigma": 2.0, "floor": 0.1, "ceiling": 10.0},
        {"window": 5, "n_sigma": 3.0, "floor": 0.1, "ceiling": 10.0},
        {"window": 7, "n_sigma": 0.0, "floor": -2.0, "ceiling": 4.0},
        {"window": 65, "n_sigma": 1.0, "floor": 2.0, "ceiling": 2.0},
    ],
)
def test_a_field_agrees_with_the_reference(
    backend: Backend, shape: tuple[int, int], options: dict[str, Any]
) -> None:
    """Any size, window and ends give the reference's field within float32 rounding."""
    depth, valid = field(shape, 3)
    with record_calls() as calls:
        actual = clip_depth_field(
            torch.from_numpy(depth), torch.from_numpy(valid), backend=backend, **options
        )
    assert calls == [("depth_clip", backend)]
    expected = reference_clip_depth_field(depth.astype(np.float64), valid, **options)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=2e-6, atol=2e-6)


def test_bounds_follow_the_scene(backend: Backend) -> None:
    """The same spike is cut to its surroundings near and far; fixed bounds would let it stand."""
    for level in (1.0, 6.0):
        depth = torch.full((9, 9), level)
        depth[::2] += 0.01
        depth[4, 4] = level + 2.0
        valid = torch.ones((9, 9), dtype=torch.bool)
        clipped = clip_depth_field(depth, valid, backend=backend)
        assert float(clipped[4, 4]) < level + 0.05
        others = torch.ones_like(valid)
        others[4, 4] = False
        assert torch.equal(clipped[others], depth[others])


def test_what_is_not_valid_neither_counts_nor_changes(backend: Backend) -> None:
    """A wild value under the mask stays and moves no bound; a lonely pixel meets only the ends."""
    depth = torch.full((7, 7), 2.0)
    valid = torch.ones((7, 7), dtype=torch.bool)
    depth[2, 2], depth[5, 5] = 1e6, math.nan
    valid[2, 2] = False
    clipped = clip_depth_field(depth, valid, backend=backend)
    assert float(clipped[2, 2]) == 1e6
    assert math.isnan(clipped[5, 5])
    assert float(clipped[3, 3]) == 2.0
    lonely = torch.zeros((7, 7), dtype=torch.bool)
    lonely[3, 3] = True
    for value, expected in ((50.0, 10.0), (-3.0, 0.1), (7.0, 7.0)):
        depth[3, 3] = value
        assert float(clip_depth_field(depth, lonely, backend=backend)[3, 3]) == pytest.approx(
            expected
        )


def test_small_spread_far_from_zero_is_not_lost(backend: Backend) -> None:
    """At a depth of 1000 a spread of 0.001 still bounds: the squares' difference keeps it."""
    rng = generator(1, "far")
    depth = (1000 + rng.normal(0, 0.001, (12, 12))).astype(np.float32)
    depth[6, 6] = 1000.5
    valid = np.ones((12, 12), np.bool_)
    options: dict[str, Any] = {"window": 5, "n_sigma": 3.0, "floor": 0.1, "ceiling": 5000.0}
    actual = clip_depth_field(
        torch.from_numpy(depth), torch.from_numpy(valid), backend=backend, **options
    )
    expected = reference_clip_depth_field(depth.astype(np.float64), valid, **options)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=0, atol=1e-4)
    assert float(actual[6, 6]) < 1000.01


@pytest.mark.parametrize("size", [1, 15, 16, 17, 1000, 4099])
@pytest.mark.parametrize("depth", [0.0, 0.5, 3.0, math.inf])
def test_logits_agree_with_the_reference(backend: Backend, size: int, depth: float) -> None:
    """Every size, with NaN and infinities among the logits, is clipped as the reference clips."""
    logits = generator(size, "logits").normal(0, 3, (5, size)).astype(np.float32)
    logits[1, size // 2] = np.nan
    logits[2, 0] = np.inf
    logits[3] = -np.inf
    if depth == math.inf:
        logits[2, 0] = 0.0
    with record_calls() as calls:
        actual = clip_logits(torch.from_numpy(logits), depth, backend=backend)
    assert calls == [("logit_depth_clip", backend)]
    with np.errstate(invalid="ignore"):
        expected = reference_clip_logits(logits, depth)
    np.testing.assert_array_equal(actual.numpy(), expected)


def test_a_depth_clip_is_min_p(backend: Backend) -> None:
    """What is D nats below the largest has less than exp(-D) of its probability: the same draws."""
    logits = torch.from_numpy(generator(2, "min-p").normal(0, 4, (4, 500))).float()
    clipped = clip_logits(logits, 3.0, backend=backend)
    expected = probabilities(logits, build_settings(4, min_p=math.exp(-3.0)), backend="torch")
    torch.testing.assert_close(clipped.double().softmax(-1), expected, rtol=1e-6, atol=1e-9)
    assert torch.equal(clipped == -math.inf, expected == 0)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"window": 4}, "got window 4, allowed odd numbers from 3 up"),
        ({"window": 1}, "got window 1"),
        ({"floor": 5.0, "ceiling": 1.0}, "floor 5.0, ceiling 1.0"),
        ({"n_sigma": -1.0}, "n_sigma -1.0"),
        ({"n_sigma": math.nan}, "n_sigma nan"),
    ],
)
def test_bad_bounds_are_refused(backend: Backend, change: dict[str, Any], problem: str) -> None:
    """A value out of range is named, with what is allowed."""
    depth, valid = torch.zeros(4, 4), torch.ones((4, 4), dtype=torch.bool)
    with pytest.raises(ValueError, match=problem):
        clip_depth_field(depth, valid, backend=backend, **change)
    with pytest.raises(ValueError, match="got depth nan, allowed numbers from 0 up"):
        clip_logits(depth, math.nan, backend=backend)
    with pytest.raises(ValueError, match=r"got a mask \(4, 3\)"):
        clip_depth_field(depth, valid[:, :3], backend=backend)
