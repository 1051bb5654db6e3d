"""Surfaces of a run: which factors take part, and what is said of them."""

from typing import Any

import pytest

from harness.findings.finding import LEVEL
from harness.findings.surfaces import find_surfaces
from harness.findings.words import break_sentence
from harness.scenario.read import validate_scenario
from tests.played_rounds import Played, play

CAPACITY = 1500


def scenario(**axes: list[Any]) -> Any:
    values = {
        "schema": 1, "name": "surface", "title": "Surface", "seed": 3,
        "load": {"requests_per_cell": 120, "segments_per_cell": 2, "warmup_requests": 0},
        "axes": axes, "analysis": {"axis": "prompt_tokens", "q": 0.9},
    }  # fmt: skip
    return validate_scenario(values, "test")


def capacity(factors: dict[str, Any]) -> float:
    tokens = float(factors["prompt_tokens"])
    return (0.01 + 2e-5 * tokens) * (2 if tokens * factors["concurrency"] > CAPACITY else 1)


@pytest.fixture(scope="module")
def played() -> Played:
    grid = {"prompt_tokens": [32, 64, 128, 256, 512], "concurrency": [2, 4, 8, 16, 32]}
    return play(scenario(**grid), capacity)


def test_a_shared_capacity_is_one_surface_beside_the_curves(played: Played) -> None:
    """Named by both axes with its level; the curves' breaks stay."""
    (found,) = find_surfaces(played.evidence, played.cells)
    assert found.kind == "surface"
    assert found.axes == ["prompt_tokens", "concurrency"]
    assert found.surface is not None
    assert found.surface.form == "product"
    level = found.surface.coefficients[LEVEL]
    assert level.low is not None
    assert level.high is not None
    assert level.low <= CAPACITY <= level.high
    assert found.surface.coefficients["concurrency"].value == 1
    assert len(played.breakpoints) == 5


def test_it_is_said_in_words(played: Played) -> None:
    """What happens, by how much, and where."""
    (found,) = find_surfaces(played.evidence, played.cells)
    said = break_sentence(found)
    assert said.startswith("TTFT P90 changes regime by +")
    assert "beyond prompt tokens \u00d7 requests in flight = 1" in said


def test_paths_are_judged_apart_and_are_no_axis() -> None:
    """A surface for each path; its absence is not told twice."""
    grid: dict[str, list[Any]] = {
        "prompt_tokens": [32, 64, 128, 256, 512], "concurrency": [2, 4, 8, 16, 32],
        "accelerated": [False, True],
    }  # fmt: skip
    run = play(scenario(**grid), lambda f: capacity(f) if not f["accelerated"] else 0.01, sigma=0.1)
    (found,) = find_surfaces(run.evidence, run.cells)
    assert found.at == {"accelerated": False}


def test_one_axis_or_two_places_make_no_surface() -> None:
    """Curves say what there is."""
    one = play(scenario(prompt_tokens=[32, 64, 128, 256, 512]), lambda _: 0.01)
    assert find_surfaces(one.evidence, one.cells) == []
    two = play(scenario(prompt_tokens=[32, 64, 128, 256], concurrency=[2, 4]), capacity)
    assert find_surfaces(two.evidence, two.cells) == []
