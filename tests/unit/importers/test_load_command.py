"""hey's and wrk's command lines, read as the load that they make."""

import pytest

from harness.base.errors import SetupError
from harness.importers.load_command import read_command
from harness.scenario.read import parse_scenario
from harness.scenario.replay import replay_toml

BODY = (
    '{"model":"tiny","messages":[{"role":"user","content":"' + "word " * 80 + '"}],'
    '"max_tokens":32,"temperature":0.7}'
)
HEY = f"hey -z 30s -q 2 -c 8 -m POST -H 'Authorization: Bearer sk-secret' -d '{BODY}'"
CHAT = "http://user:pass@127.0.0.1:8000/v1/chat/completions?key=secret"


def test_hey_with_a_rate_is_an_open_loop() -> None:
    """2 a second in each of 8 workers are 16 a second, for 30 s 480 requests of 100 tokens."""
    load = read_command(f"{HEY} {CHAT}")
    assert (load.rate_rps, load.concurrency, load.n_requests) == (16.0, 8, 480)
    assert (load.prompt_tokens, load.output_tokens, load.temperature) == ((100,), 32, 0.7)
    assert (load.url, load.api, load.model) == ("http://127.0.0.1:8000", "openai-chat", "tiny")


def test_no_secret_of_the_line_reaches_the_scenario() -> None:
    """Neither header nor credentials nor query are written down."""
    text = replay_toml(read_command(f"{HEY} {CHAT}"))
    for secret in ("sk-secret", "pass", "key=secret", "user:"):
        assert secret not in text


def test_hey_without_a_rate_is_a_closed_loop_with_its_defaults() -> None:
    """Hey alone is 200 requests over 50 workers; flags without a value take none."""
    load = read_command("hey -disable-keepalive -h2 http://localhost:1/v1/completions")
    assert (load.rate_rps, load.concurrency, load.n_requests) == (None, 50, 200)
    assert load.api == "openai-completions"


def test_wrk_in_both_spellings() -> None:
    """-c16 and --connections 16 are one; its script is said to be unknown."""
    for line in ("wrk -t2 -c16 -d30s -s post.lua", "wrk --connections 16 --latency -s=post.lua"):
        load = read_command(f"{line} http://localhost:8000/base/v1/chat/completions")
        assert (load.rate_rps, load.concurrency) == (None, 16)
        assert load.url == "http://localhost:8000/base"
        assert any("Lua" in note for note in load.notes)


def test_wrk2_has_a_rate() -> None:
    """-R2k is two thousand a second."""
    load = read_command("wrk2 -R2k -d 10s -c 100 http://localhost:8000")
    assert (load.rate_rps, load.n_requests) == (2000.0, 20_000)


@pytest.mark.parametrize(
    "line", [f"{HEY} {CHAT}", "wrk -c 16 http://localhost:8000/v1/completions"]
)
def test_every_reading_is_a_scenario(line: str) -> None:
    """What is written can be run."""
    scenario = parse_scenario(replay_toml(read_command(line)), "replay")
    assert scenario.axes.prompt_tokens is not None


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("", "allowed are hey and wrk"),
        ("curl http://x", "'curl'"),
        ("hey -c 8", "0 URLs"),
        ("hey http://a http://b", "2 URLs"),
        ("hey -c none http://a", "-c: got 'none'"),
        ("hey -c 0 http://a", "-c: got '0'"),
        ("hey -c 1.5 http://a", "-c: got '1.5'"),
        ("hey -z soon http://a", "-z: got 'soon'"),
        ("hey 'http://a", "cannot be split"),
        ("hey ftp://a", "ftp://a"),
        ("hey http://a:b/", "cannot be read"),
        ("wrk -c inf http://a", "-c"),
        ("hey " + "x" * 300_000, "longer than"),
    ],
)
def test_what_cannot_be_read_is_told(line: str, told: str) -> None:
    """One error with what came and what is allowed, never a trace."""
    with pytest.raises(SetupError, match=told):
        read_command(line)


@pytest.mark.parametrize("body", ["[1]", "no json", "[" * 100_000, '{"messages": 3, "model": 4}'])
def test_a_strange_body_leaves_guesses_that_are_told(body: str) -> None:
    """The load is still read; its notes say what is guessed."""
    load = read_command(f"hey -d '{body}' http://localhost:1")
    assert load.prompt_tokens == (128,)
    assert any("guess" in note for note in load.notes)


def test_times_in_parts_and_addresses_in_brackets() -> None:
    """Go's 1h30m is an hour and a half, and an IPv6 address keeps its brackets."""
    load = read_command("hey -z 1h30m -q 1 -c 1 http://[::1]:8000/v1/completions")
    assert (load.n_requests, load.url) == (5400, "http://[::1]:8000")
