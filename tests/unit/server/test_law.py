import tomllib
from pathlib import Path

import numpy as np
import pytest

from harness.base.errors import ScenarioError
from harness.base.rng import generator
from harness.server.truth.latency import LatencySource, NoiseSource, curve_s
from harness.server.truth.law import (
    MAX_LATENCY_S,
    Break,
    Curve,
    Hyperbola,
    Law,
    Noise,
    parse_law,
    read_law,
    validate_law,
)
from harness.server.truth.log import Log
from harness.server.truth.messages import parse_ask
from harness.server.truth.planter import Planter

LAWS = sorted(Path("scenarios/laws").glob("*.toml"))
HEAD = 'schema = 1\nname = "x"\ntitle = "X"\ntruth = { found = ["none"] }\n'
TTFT = "ttft = { base_s = 0.01 }\n"


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ScenarioError) as caught:
        parse_law(text, "f.toml")
    return {problem.where: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize("path", LAWS, ids=lambda path: path.stem)
def test_every_shipped_law_loads(path: Path) -> None:
    """Each file in scenarios/laws is valid and named after itself."""
    assert read_law(path).name == path.stem


def test_the_laws_cover_what_a_server_does() -> None:
    """Jump, kink, both, staircase, smooth curve, heavy tail, correlation, stall and drift."""
    assert {path.stem for path in LAWS} >= {
        "jump", "kink", "both", "staircase", "smooth", "heavy-tail", "ar-noise", "stall", "drift",
    }  # fmt: skip


def test_all_problems_are_reported_at_once() -> None:
    """A wrong value, an unknown key inside a list, and a missing table: three key paths."""
    breaks = '[{ kind = "jump", at = 0.0, size = 0.4, sise = 1 }]'
    found = problems(f"{HEAD}[ttft]\nbase_s = 0.01\nbreaks = {breaks}\n[stall]\n")
    assert set(found) == {"ttft.breaks.0.at", "ttft.breaks.0.sise", "stall.length_s"}
    assert found["ttft.breaks.0.sise"].endswith("allowed kind, at, size, try size")


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        (HEAD + TTFT + "stall = { length_s = 1.0 }\n", "stall", "either period_s or at_request"),
        (
            HEAD + 'ttft = { base_s = 0.1, breaks = [{ kind = "jump", at = 3, size = -1.0 }] }\n',
            "ttft.breaks.0",
            "above -1",
        ),
        (HEAD.replace("none", "jump") + TTFT, "(file)", "ttft.breaks has 0 places"),
        (HEAD.replace("none", "staircase") + TTFT, "(file)", "needs two places"),
        (HEAD.replace("none", "cliff") + TTFT, "truth.found.0", "'jump'"),
        (HEAD, "ttft", "required"),
    ],
)
def test_bad_laws_say_where_and_what_is_allowed(text: str, where: str, said: str) -> None:
    """Each contradiction is placed at its key path with what would be right."""
    found = problems(text)
    assert where in found, found
    assert said in found[where]


def test_the_curve_is_the_closed_form() -> None:
    """Base, slope and hyperbola add up; a jump and a kink multiply, past their places only."""
    curve = Curve(
        base_s=1.0,
        slope_s=0.5,
        hyperbola=Hyperbola(capacity=10.0, scale_s=2.0),
        breaks=[Break(kind="jump", at=2.0, size=0.4), Break(kind="kink", at=2.0, size=0.6)],
    )
    assert curve_s(curve, 2.0) == pytest.approx(1 + 1 + 2 * 2 / 8)
    assert curve_s(curve, 8.0) == pytest.approx((1 + 4 + 2 * 8 / 2) * 1.4 * np.exp(0.6 * 2))
    assert curve_s(curve, 50.0) < np.inf  # held below its capacity


def draws(noise: Noise, n: int = 20_000) -> np.ndarray:
    source = NoiseSource(noise, generator(1, "test"))
    return np.array([source.draw() for _ in range(n)])


def test_noise_has_the_stated_spread_median_and_correlation() -> None:
    """CV 0.3 with neighbours at 0.8: standard errors of 20,000 draws decide the bounds."""
    values = draws(Noise(cv=0.3, ar=0.8))
    logs = np.log(values)
    assert np.median(values) == pytest.approx(1.0, abs=0.03)
    assert values.std() / values.mean() == pytest.approx(0.3, abs=0.02)
    assert np.corrcoef(logs[:-1], logs[1:])[0, 1] == pytest.approx(0.8, abs=0.02)


def test_the_tail_has_its_share_and_exponent() -> None:
    """One in twenty takes a Pareto factor: its median is 2^(1/alpha)."""
    values = draws(Noise(tail_share=0.05, tail_alpha=2.0))
    tail = values[values > 1]
    assert tail.size / values.size == pytest.approx(0.05, abs=0.006)
    assert np.median(tail) == pytest.approx(2**0.5, abs=0.06)


def test_drift_grows_with_time_and_draws_go_on() -> None:
    """Ten seconds at 2 % a second: a fifth slower; without noise nothing else changes."""
    law = Law.model_validate(
        {
            "schema": 1, "name": "x", "title": "X", "ttft": {"base_s": 0.1},
            "drift": {"per_s": 0.02}, "truth": {"found": ["none"]},
        }
    )  # fmt: skip
    source = LatencySource(law)
    factors = {"prompt_tokens": 5.0}
    assert source.plant(factors, 0.0).ttft_s == pytest.approx(0.1)
    assert source.plant(factors, 10.0).ttft_s == pytest.approx(0.12)
    assert source.plant(factors, 10.0).itl_s == pytest.approx(0.0012)


@pytest.mark.parametrize(
    ("factor", "body", "x"),
    [
        ("prompt_tokens", {"prompt": "a b c"}, 3.0),
        ("cot_depth", {"prompt": "a", "cot_depth": 2}, 2.0),
        ("frequency_penalty", {"prompt": "a", "frequency_penalty": 0.5}, 0.5),
        ("repetition_penalty", {"prompt": "a"}, 1.0),
        ("in_flight", {"prompt": "a"}, 2.0),
    ],
)
def test_a_latency_follows_the_factor_that_the_law_names(
    factor: str, body: dict[str, object], x: float
) -> None:
    """The second of two requests in the server: base 0.1 s, a second per unit of the factor."""
    law = validate_law(
        {
            "schema": 1, "name": "x", "title": "X", "truth": {"found": ["none"]},
            "ttft": {"factor": factor, "base_s": 0.1, "slope_s": 1.0},
        },
        "f.toml",
    )  # fmt: skip
    planter = Planter(law, Log())
    planter.begin(parse_ask(body, is_chat=False), {})
    entry, planted = planter.begin(parse_ask(body, is_chat=False), {})
    assert planted is not None
    assert planted.ttft_s == entry.planted_ttft_s == pytest.approx(0.1 + x)


def test_no_law_plants_what_cannot_be_waited_for() -> None:
    """A line that falls below 0 waits 0, a kink beyond all numbers the longest that is allowed."""
    text = Path("scenarios/laws/jump.toml").read_text(encoding="utf-8")
    values = tomllib.loads(text) | {"truth": {"found": ["kink"]}}
    falling = {"factor": "frequency_penalty", "base_s": 0.1, "slope_s": 1.0}
    steep = {"base_s": 0.1, "breaks": [{"kind": "kink", "at": 1e-6, "size": 1e300}]}
    law = validate_law(values | {"ttft": steep, "itl": falling}, "x.toml")
    planted = LatencySource(law).plant({"prompt_tokens": 64.0, "frequency_penalty": -2.0}, 0.0)
    assert (planted.ttft_s, planted.itl_s) == (MAX_LATENCY_S, 0.0)
