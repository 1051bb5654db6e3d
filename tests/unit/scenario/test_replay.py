"""A load that was seen, as a scenario: what is known decides its form."""

import pytest

from harness.base.errors import ScenarioError
from harness.scenario.read import parse_scenario
from harness.scenario.replay import SeenLoad, fifths, replay_toml


def test_a_rate_is_an_open_loop_with_equally_likely_lengths() -> None:
    """4,000 requests over five lengths are 800 a cell at the rate that was seen."""
    load = SeenLoad(
        origin="x", rate_rps=12.5, concurrency=40, n_requests=4000,
        prompt_tokens=(50, 80, 100, 200, 900), output_tokens=40, output_spread=15,
    )  # fmt: skip
    scenario = parse_scenario(replay_toml(load), "replay")
    assert (scenario.load.mode, scenario.load.rate_rps) == ("open", 12.5)
    assert scenario.load.requests_per_cell == 800
    assert scenario.axes.prompt_tokens == [50, 80, 100, 200, 900]
    assert (scenario.output.tokens, scenario.output.spread) == (40, 15)


def test_only_sequences_in_flight_are_a_closed_loop() -> None:
    """Without a rate as many requests are kept in flight as were seen."""
    load = SeenLoad(origin="x", concurrency=7, prompt_tokens=(64,), output_tokens=1)
    scenario = parse_scenario(replay_toml(load), "replay")
    assert (scenario.load.mode, scenario.load.concurrency) == ("closed", 7)


def test_what_is_missing_is_named() -> None:
    """No length and no rate: the error says which."""
    with pytest.raises(ScenarioError, match="prompt lengths, answer lengths"):
        replay_toml(SeenLoad(origin="x", rate_rps=1.0))


def test_text_from_outside_stays_text() -> None:
    """A source's name cannot write keys of its own into the file."""
    load = SeenLoad(
        origin='a\nname = "b"\x1b[2J', concurrency=1, prompt_tokens=(1,), output_tokens=1,
        model='m"\\', notes=("c\nseed = 9",),
    )  # fmt: skip
    scenario = parse_scenario(replay_toml(load), "replay")
    assert (scenario.name, scenario.seed, scenario.target.model) == ("replay", 1, 'm"\\')


def test_fifths_are_equally_likely() -> None:
    """Of 1 to 100 they are the 11th, 31st, 51st, 71st and 91st; of one value it alone."""
    assert fifths([float(n) for n in range(1, 101)]) == (11, 31, 51, 71, 91)
    assert fifths([5.0]) == (5,)
    assert fifths([]) == ()
