import pytest

from harness.scenario.comparable import Described, differences
from tests.make_records import SMALL, make_scenario

MACHINE = {"cpu": "A", "cores": "2", "torch version": "1"}


def described(text: str = SMALL, target: str = "http://127.0.0.1:1", **machine: str) -> Described:
    environment = {**MACHINE, **{name.replace("_", " "): value for name, value in machine.items()}}
    return Described(scenario=make_scenario(text), environment=environment, target=target)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("concurrency = 2", "concurrency = 4", "load.concurrency: 2 in the baseline, 4 here"),
        ("tokens = 8", "tokens = 9", "output.tokens: 8 in the baseline, 9 here"),
        ("[axes]", "[sampling]\ntop_k = 5\n[axes]", "sampling.top_k: 0 in the baseline, 5 here"),
        ("[axes]", '[target]\nmodel = "b"\n[axes]', "target.model: tiny in the baseline, b here"),
        ("accelerated = [false, true]\n", "", "axes: prompt_tokens, accelerated in the baseline"),
        ("[64, 128]", "[65, 129]", "axes.prompt_tokens: [64, 128] in the baseline"),
    ],
)
def test_another_experiment_is_refused(old: str, new: str, said: str) -> None:
    """What is asked of the server must be the same; the key and both values are said."""
    found = differences(described(), described(SMALL.replace(old, new)))
    assert len(found.refusals) == 1
    assert said in found.refusals[0]
    assert not found.caveats


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed = 7", "seed = 8"),
        ("requests_per_cell = 8", "requests_per_cell = 80"),
        ('title = "Small"', 'title = "Large"'),
        ("[64, 128]", "[128, 256]"),
        ("[axes]", "[limits]\nregression = 0.5\n[axes]"),
        ("[axes]", "prompt_tokens = 200\n[axes]".replace("prompt_tokens = 200\n", "")),
    ],
)
def test_how_much_and_what_is_asked_of_the_records_may_differ(old: str, new: str) -> None:
    """Sizes, seeds, part of the grid and limits change no answer: no word."""
    found = differences(described(), described(SMALL.replace(old, new)))
    assert (found.refusals, found.caveats) == ((), ())


def test_another_build_is_what_is_tested_and_is_said() -> None:
    """The version of the target's build may differ: that is a caveat with both versions."""
    new = SMALL.replace("[axes]", '[target]\nversion = "2"\n[axes]')
    found = differences(described(), described(new))
    assert found.refusals == ()
    assert found.caveats == ("target.version: unknown in the baseline, 2 here",)


def test_a_value_that_an_axis_overrides_is_not_in_force() -> None:
    """The scenario's own prompt length says nothing where prompt length is an axis of both."""
    other = described(SMALL.replace("seed = 7", "seed = 7\nprompt_tokens = 999"))
    assert differences(described(), other).refusals == ()


def test_another_machine_is_refused_and_other_versions_are_said() -> None:
    """CPU: no comparison. A package, the host, the bundled server's options: a caveat each."""
    assert differences(described(), described(cpu="B")).refusals == (
        "cpu: A in the baseline, B here",
    )
    text = SMALL.replace("[axes]", "[target.server]\nkv_tokens = 1280\n[axes]")
    found = differences(described(), described(text, target="http://10.0.0.1:1", torch_version="2"))
    assert found.refusals == ()
    assert found.caveats == (
        "target.server.kv_tokens: 2560 in the baseline, 1280 here",
        "torch version: 1 in the baseline, 2 here",
        "the server's host: 127.0.0.1 in the baseline, 10.0.0.1 here",
    )


def test_what_an_old_run_did_not_record_is_a_caveat() -> None:
    """A machine that was not recorded cannot be another one."""
    old = Described(scenario=make_scenario(), environment={}, target="http://127.0.0.1:1")
    found = differences(old, described())
    assert found.refusals == ()
    assert "cpu: not recorded in the baseline, A here" in found.caveats
