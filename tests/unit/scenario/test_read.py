from pathlib import Path

import pytest

from harness.base.errors import ScenarioError
from harness.scenario.read import parse_scenario, read_scenario, validate_scenario
from harness.scenario.toml_file import MAX_BYTES

HEAD = 'schema = 1\nname = "x"\ntitle = "X"\n'
AXES = "[axes]\nprompt_tokens = [64, 128]\n"
SCENARIOS = sorted(Path("scenarios").glob("*.toml"))


def problems(text: str) -> dict[str, str]:
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(text, "f.toml")
    return {problem.where: str(problem) for problem in caught.value.problems}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_every_shipped_scenario_loads(path: Path) -> None:
    """Each file in scenarios/ is valid and named after itself."""
    assert read_scenario(path).name == path.stem


def test_there_are_shipped_scenarios() -> None:
    """The glob above is not empty."""
    assert SCENARIOS


def test_all_problems_are_reported_at_once() -> None:
    """Three mistakes in three tables give three problems with their key paths."""
    found = problems(
        HEAD + '[load]\nmode = "x"\n[output]\ntokens = 0\n[axes]\nprompt_tokens = []\n'
    )
    assert set(found) == {"load.mode", "output.tokens", "axes.prompt_tokens"}


def test_a_misspelt_key_names_the_one_meant() -> None:
    """The message says what came, what is allowed and what to try."""
    found = problems(HEAD + "[load]\nconcurency = 4\n" + AXES)
    text = found["load.concurency"]
    assert "unknown key" in text
    assert "requests_per_cell" in text
    assert text.endswith("try concurrency")


@pytest.mark.parametrize(
    ("text", "where", "said"),
    [
        (HEAD, "axes", "required"),
        (HEAD + "[axes]\n", "axes", "the grid is empty"),
        (HEAD + "[axes]\nprompt_tokens = [64, 64]\n", "axes", "lists a value twice"),
        (HEAD + AXES + "temperature = [3.0]\n", "axes.temperature.0", "less than or equal to 2"),
        (HEAD + AXES + "rate_rps = [3.0]\n", "(file)", "needs load.mode = 'open'"),
        ("fidelity = true\n" + HEAD + AXES, "(file)", "needs axes.accelerated"),
        ("fidelity = true\n" + HEAD + AXES + "accelerated = [false]", "(file)", "needs axes.acc"),
        (
            "fidelity = true\n"
            + HEAD
            + AXES
            + 'accelerated = [true]\n[target]\nurl = "http://h:1"',
            "(file)",
            "inside the bundled server",
        ),
        (
            HEAD + '[load]\nmode = "open"\n' + AXES,
            "(file)",
            "one of load.rate_rps and axes.rate_rps",
        ),
        (
            HEAD + "[cot]\nmode = 'budget'\n" + AXES,
            "cot.mode",
            "'budget', which is not in this version",
        ),
        (HEAD + "[cot]\nmode = 'chain'\n" + AXES, "cot.mode", "'server' or 'chained'"),
        (HEAD + "[cot]\nmode = 'chained'\n" + AXES, "cot.mode", "no reasoning step"),
        (HEAD + "[cot]\nstep_tokens = 4\n" + AXES, "cot.step_tokens", "only with cot.depth"),
        (HEAD + "[load]\nusers = 4\n" + AXES, "load.users", "only with load.mode = 'open'"),
        (HEAD + "[load]\narrivals = 'constant'\n" + AXES, "load.arrivals", "only with load.mode"),
        (
            HEAD + "[load]\nmode = 'open'\nrate_rps = 5.0\nthink_time_s = 1.0\n" + AXES,
            "load.think_time_s",
            "only with load.mode = 'closed'",
        ),
        (
            HEAD + "[target]\nurl = 'http://h'\n[target.server]\nkv_tokens = 640\n" + AXES,
            "target.server",
            "only without target.url",
        ),
        (HEAD + "[target]\nurl = 'http://me:secret@h'\n" + AXES, "target.url", "no credentials"),
        (HEAD + "[target]\nurl = 'http://h/v1?key=secret'\n" + AXES, "target.url", "api_key_env"),
        (HEAD + "x = " + "[" * 5000, "(file)", "TOML 1.0"),
        (
            HEAD + "[analysis]\naxis = 'accelerated'\n[axes]\naccelerated = [true, 'a']\n",
            "(file)",
            "axes.accelerated needs false and another value",
        ),
        (HEAD + "[load]\nrate_rps = 2.0\n" + AXES, "load", "a closed loop has concurrency"),
        (HEAD + "[output]\ntokens = 4\nspread = 4\n" + AXES, "output", "spread must stay below"),
        (HEAD + '[analysis]\naxis = "concurrency"\n' + AXES, "(file)", "the grid has"),
        (HEAD + "[load]\nconcurrency = true\n" + AXES, "load.concurrency", "integer"),
        (HEAD + '[load]\nconcurrency = "8"\n' + AXES, "load.concurrency", "integer"),
        (HEAD + "[target]\nurl = 'ftp://x'\n" + AXES, "target.url", "http://host:port"),
        (HEAD.replace("1", "2") + AXES, "schema", "1"),
        ("x = [", "(file)", "TOML 1.0"),
        (HEAD + AXES + "temperature = [nan]\n", "axes.temperature.0", "finite"),
        (HEAD + "seed = " + "9" * 5000 + "\n" + AXES, "(file)", "TOML 1.0"),
        (HEAD + ".".join("a" * 3000) + " = 1\n" + AXES, "a", "a dict too large to show"),
        (HEAD + "seed = 0x" + "f" * 5000 + "\n" + AXES, "seed", "too large to show"),
        (HEAD + "[load]\nmode = 'open'\nrate_rps = 1e-9\n" + AXES, "load.rate_rps", "0.001"),
        (HEAD + "[load]\nmode = 'open'\nrate_rps = 1e300\n" + AXES, "load.rate_rps", "1000000"),
        (HEAD + "[load]\nidle_timeout_s = 1e300\n" + AXES, "load.idle_timeout_s", "86400"),
        (HEAD + "[target]\nurl = 'http://[::1'\n" + AXES, "target.url", "http://host:port"),
        (HEAD + "[target]\nurl = 'http://h:99999'\n" + AXES, "target.url", "http://host:port"),
        (HEAD + "[target]\nmodel = 'a\\nb'\n".replace("'", '"') + AXES, "target.model", "one line"),
        (HEAD.replace('"X"', '"X\\u001b[2J"') + AXES, "title", "control characters"),
        (
            HEAD + "[load]\nrequests_per_cell = 10_000_000\n" + AXES,
            "(file)",
            "make 20,000,064 requests, allowed are at most 10,000,000",
        ),
        (
            HEAD
            + f"[axes]\nprompt_tokens = {list(range(1, 65))}\nconcurrency = {list(range(1, 65))}\n"
            + "cot_depth = [1, 2, 3]\n",
            "(file)",
            "12,288 cells, allowed are at most 10,000",
        ),
    ],
)
def test_bad_input_says_where_and_what_is_allowed(text: str, where: str, said: str) -> None:
    """Each contradiction is placed at its key path with what would be right."""
    found = problems(text)
    assert where in found, found
    assert said in found[where]


def test_a_missing_file_is_a_scenario_error(tmp_path: Path) -> None:
    """No traceback for a path that does not exist."""
    with pytest.raises(ScenarioError, match="No such file"):
        read_scenario(tmp_path / "none.toml")


def test_a_huge_or_binary_file_is_refused(tmp_path: Path) -> None:
    """Size and encoding are checked before parsing."""
    huge = tmp_path / "huge.toml"
    huge.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(ScenarioError, match="at most 1,000,000 bytes"):
        read_scenario(huge)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="UTF-8"):
        read_scenario(binary)


def test_a_device_without_an_end_is_refused() -> None:
    """No more is read than a scenario may hold."""
    with pytest.raises(ScenarioError, match="at most 1,000,000 bytes"):
        read_scenario(Path("/dev/zero"))


def test_a_secret_in_a_url_is_not_echoed() -> None:
    """The message about a refused URL goes to logs: it does not repeat the password."""
    assert (
        "secret"
        not in problems(HEAD + "[target]\nurl = 'http://me:secret@h'\n" + AXES)["target.url"]
    )


def test_a_byte_order_mark_is_no_problem(tmp_path: Path) -> None:
    """Editors that write one are not the user's fault."""
    path = tmp_path / "bom.toml"
    path.write_text("\ufeff" + HEAD + AXES, encoding="utf-8")
    assert read_scenario(path).name == "x"


def test_the_resolved_scenario_reads_back_as_itself() -> None:
    """What a run stores is complete: reading it again gives an equal scenario."""
    scenario = parse_scenario(HEAD + AXES, "f.toml")
    assert validate_scenario(scenario.resolved(), "again") == scenario


def test_an_axis_cannot_be_left_out_of_the_requests() -> None:
    """`target.omit` beside an axis of the same name would measure nothing."""
    text = HEAD + "[target]\nomit = ['temperature']\n" + AXES + "temperature = [0.0, 1.0]\n"
    with pytest.raises(ScenarioError, match=r"target\.omit leaves out temperature"):
        parse_scenario(text, "x.toml")
