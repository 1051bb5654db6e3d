"""Prompts for targets that cannot count: calibrated by usage where there is some."""

import json
from typing import Any

import numpy as np
import pytest

from harness.base.errors import SetupError
from harness.load.client.plain_http import PlainHttp, Reply
from harness.load.materialise import materialise
from harness.plan.build import build_plan
from tests.make_records import SMALL, make_scenario

TEXT = SMALL.replace("[64, 128]", "[200, 400]")


def count(text: str) -> int:
    """A toy tokenizer, far from the usual density: a token per started three letters."""
    return sum(-(-len(word) // 3) for word in text.split())


class Target(PlainHttp):
    """No counting route; answers generations with a usage that knows a template of 31, or fails."""

    def __init__(self, *, has_usage: bool, answers: bool = True) -> None:
        super().__init__("http://127.0.0.1:9")
        self.has_usage = has_usage
        self.answers = answers
        self.n_generations = 0

    def post(self, path: str, value: Any) -> Reply:
        """One more question."""
        if not path.startswith("/v1/"):
            return Reply(404, b"{}")
        self.n_generations += 1
        if not self.answers:
            raise SetupError("no answer")
        n = count(value["messages"][0]["content"]) + 31
        usage = {"usage": {"prompt_tokens": n}} if self.has_usage else {}
        return Reply(200, json.dumps({"choices": [], **usage}).encode())


def lengths(target: Target) -> dict[int, float]:
    """Mean length per length asked, and nothing is called exact."""
    plan = build_plan(make_scenario(TEXT))
    prompts = materialise(plan, target, "m", is_chat=True)
    assert not prompts.is_counted
    assert prompts.n_inexact == plan.n_requests
    found: dict[int, list[int]] = {200: [], 400: []}
    for segment in plan.segments:
        texts = prompts.by_segment[segment.id].values()
        found[plan.cell(segment.cell).prompt_tokens] += [count(text) + 31 for text in texts]
    return {wanted: float(np.mean(values)) for wanted, values in found.items()}


def test_usage_calibrates_the_estimate() -> None:
    """Two one-token answers, and the lengths are right to a few per cent, template included."""
    target = Target(has_usage=True)
    found = lengths(target)
    assert target.n_generations == 2
    assert found[200] == pytest.approx(200, rel=0.08)
    assert found[400] == pytest.approx(400, rel=0.08)


@pytest.mark.parametrize("answers", [True, False])
def test_without_usage_lengths_stay_a_guess(*, answers: bool) -> None:
    """No usage, or no answer in time: the run goes on with the usual density."""
    found = lengths(Target(has_usage=False, answers=answers))
    assert found[400] > found[200] > 100
