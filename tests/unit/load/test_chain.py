"""Chained reasoning: what each call asks, and the one record that a chain leaves."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import gevent
import pytest

from harness.load.chain import Call, fold, turns_after
from harness.load.client.adapter import Ask
from harness.load.client.openai import OpenAiChat, OpenAiCompletions
from harness.metrics.steps import step_rows
from harness.records.frame import to_frame
from harness.records.request import Outcome, RequestRecord
from harness.records.store import read_rows
from tests.e2e.truth_process import records_of, scenario_values, truth_server
from tests.make_records import MS, make_record
from tests.unit.load.streams import DONE, LENGTH, delta, exchange, text, usage
from tests.unit.load.test_engine import Run

DEPTH = 3


def call(start_ms: int, **changes: Any) -> Call:
    """A call of four tokens, the first after 10 ms, done 16 ms after it was meant."""
    values = {"start_ns": start_ms * MS, "n_prompt_tokens": 10 + start_ms, "text": "one two"}
    record = make_record(**{**values, **changes})
    return Call(intended_ns=start_ms * MS, record=record, n_bytes=100)


CALLS = [call(0), call(20), call(40)]


def test_a_chain_starts_as_its_first_call_and_ends_as_its_last() -> None:
    """TTFT, prompt length and sends are the first call's, TTFO and the end the last one's."""
    record = fold(CALLS, 3)
    assert (record.first_token_ns, record.first_output_ns) == (10 * MS, 50 * MS)
    assert (record.sent_ns, record.done_ns) == (MS // 50, 56 * MS)
    assert (record.n_prompt_tokens, record.n_output_tokens) == (10, 12)
    assert record.n_reasoning_tokens == 8
    assert record.token_ns == tuple(t for each in CALLS for t in each.record.token_ns)
    assert len(record.late_read) == len(record.chunk_ns) == 12
    assert record.text is None


def test_each_call_is_a_step_with_its_stamps_tokens_and_context() -> None:
    """Six columns, one entry a call; context is prompt plus answer of the call."""
    record = fold(CALLS, 3)
    assert record.step_start_ns == (0, 20 * MS, 40 * MS)
    assert record.step_sent_ns == (MS // 50, 20 * MS + MS // 50, 40 * MS + MS // 50)
    assert record.step_first_ns == (10 * MS, 30 * MS, 50 * MS)
    assert record.step_done_ns == (16 * MS, 36 * MS, 56 * MS)
    assert record.step_tokens == (4, 4, 4)
    assert record.step_kv_tokens == (14, 34, 54)


def test_the_servers_accounts_add_up() -> None:
    """Phases, evictions and anomalies are sums; TTFT's account is the first call's alone."""
    calls = [call(0, n_evictions=1, anomalies={"comment": 2}), call(20, anomalies={"comment": 1})]
    record, one = fold(calls, 2), calls[0].record
    assert record.phases == {name: pytest.approx(2 * s) for name, s in one.phases.items()}
    assert record.ttft_phases == one.ttft_phases
    assert record.server_e2e_s == pytest.approx(2 * (one.server_e2e_s or 0))
    assert record.n_evictions == 1
    assert record.anomalies == {"comment": 3}


def test_calls_that_ran_different_features_are_marked() -> None:
    """Their union would pass for what was asked, so the chain says that they differed."""
    calls = [call(0, features=("paged_kv",)), call(20, features=("paged_kv", "prefix_cache"))]
    assert fold(calls, 2).anomalies == {"path_mismatch": 1}
    assert fold(calls[:1] * 2, 2).anomalies == {}


def test_what_one_call_does_not_tell_the_chain_does_not_know() -> None:
    """A call without usage or account: no sum is made up, the weakest count source shows."""
    silent = call(20, phases={}, n_output_tokens=None, server_e2e_s=None, count_source="chunks")
    record = fold([call(0), silent, call(40)], 3)
    assert record.phases == {}
    assert (record.n_output_tokens, record.server_e2e_s) == (None, None)
    assert record.step_kv_tokens == (14, None, 54)
    assert record.count_source == "chunks"


def test_a_chain_that_fails_says_at_which_call() -> None:
    """The second of three calls is cut: outcome and error are its own, no answer began."""
    broken = call(20, outcome=Outcome.TRUNCATED, done_ns=None, error="ended inside the body")
    record = fold([call(0), broken], 3)
    assert record.outcome is Outcome.TRUNCATED
    assert record.error == "call 2 of 3: ended inside the body"
    assert (record.done_ns, record.first_output_ns) == (None, None)
    assert record.first_token_ns == 10 * MS
    assert record.step_done_ns == (16 * MS, None)


ASK = Ask(model="m", prompt="Why?", turns=turns_after(CALLS[:2], 3), max_tokens=4)


def test_a_chat_chain_is_a_growing_conversation() -> None:
    """Each answer comes back as the assistant's, each separator as the user's."""
    assert OpenAiChat().body(ASK)["messages"] == [
        {"role": "user", "content": "Why?"},
        {"role": "assistant", "content": "one two"},
        {"role": "user", "content": "Step 2:"},
        {"role": "assistant", "content": "one two"},
        {"role": "user", "content": "Answer:"},
    ]


def test_a_completion_chain_is_a_growing_text() -> None:
    """Context, answer and the separators that the bundled server's own loop uses."""
    prompt = OpenAiCompletions().body(ASK)["prompt"]
    assert prompt == "Why?one two\nStep 2: one two\nAnswer: "


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"text": "", "reasoning": "thought"}, "thought"),
        ({"text": "a\ud800b"}, "a?b"),
        ({"text": None}, ""),
    ],
)
def test_what_is_said_can_always_be_sent_on(record: dict[str, Any], said: str) -> None:
    """Only reasoning, half a surrogate pair, nothing: the next body is valid JSON in UTF-8."""
    turns = turns_after([call(0, **record)], 2)
    assert turns[0] == said
    ask = Ask(model="m", prompt="p", turns=turns, max_tokens=1)
    json.loads(OpenAiChat().request(ask).body)


def server_mode(*timings: dict[str, Any]) -> RequestRecord:
    """Two reasoning steps of two tokens and an answer of one, as the bundled server streams."""
    told = {"steps": list(timings), "kv_tokens": 31}
    last = b"data: " + json.dumps({"choices": [], "timings": told}).encode() + b"\n\n"
    bodies = [*(delta(reasoning_content=f"t{i}") for i in range(4)), text("x"), LENGTH]
    return OpenAiChat().decode(exchange(*bodies, usage(5), last, DONE), ASK)


def test_the_bundled_servers_steps_fill_the_same_columns() -> None:
    """Boundaries are the client's own token stamps, lengths the server's; the answer comes last."""
    record = server_mode({"tokens": 2, "kv_tokens": 12}, {"tokens": 2, "kv_tokens": 20})
    assert record.step_tokens == (2, 2, 1)
    assert record.step_kv_tokens == (12, 20, 31)
    assert record.step_start_ns == (0, 20 * MS, 40 * MS)
    assert record.step_sent_ns == (MS, 20 * MS, 40 * MS)
    assert record.step_first_ns == (10 * MS, 30 * MS, 50 * MS)
    assert record.step_done_ns == (20 * MS, 40 * MS, record.done_ns)


@pytest.mark.parametrize(
    "timings",
    [
        [{"tokens": 3}, {"tokens": 2}],
        [{"tokens": 2}, {}],
        [{"tokens": 2}, "x"],
        [{"tokens": -1}],
        [],
    ],
)
def test_steps_that_do_not_fit_the_tokens_are_not_made_up(timings: list[Any]) -> None:
    """Steps longer than the answer, without counts, of another shape: no step columns."""
    assert server_mode(*timings).step_start_ns == ()


def chained(api: str = "openai-chat", depth: int = DEPTH, **load: Any) -> dict[str, Any]:
    values = scenario_values(requests_per_cell=6, segments_per_cell=1, warmup_requests=2, **load)
    values["cot"] = {"mode": "chained", "depth": depth, "step_tokens": 5}
    values["target"]["api"] = api
    values["axes"] = {"prompt_tokens": [32]}
    return values


def open_loop(**changes: Any) -> dict[str, Any]:
    values = chained(mode="open", rate_rps=50.0, users=8, **changes)
    del values["load"]["concurrency"]
    return values


@pytest.mark.parametrize(
    "values",
    [chained(), chained("openai-completions"), chained(think_time_s=0.02), open_loop()],
    ids=["chat", "completions", "think time", "open loop"],
)
def test_a_request_is_a_chain_of_calls_and_one_record(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    """Depth 3: four calls a request, each prompt the context and answer before it, one row."""
    think_ns = round(values["load"].get("think_time_s", 0.0) * 1e9)
    glued = (
        values["target"]["api"] == "openai-completions"
    )  # its first word joins the prompt's last
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, values).to_end()
        log = truth.log()
    session, records = records_of(run.path)
    assert len(records) == session.plan.n_requests == 8
    assert len(log) == 8 * (DEPTH + 1)
    assert len(run.reported) == 8
    for record in records:
        (planned,) = [r for r in session.plan.segments[0].requests if r.index == record.index]
        mine = [entry for entry in log if entry["seed"] == planned.sampling_seed]
        assert [entry["n_prompt"] for entry in mine] == [32, 39 - glued, 46 - glued, 52 - glued]
        assert [len(entry["token_ns"]) for entry in mine] == [5, 5, 5, planned.max_tokens]
        assert record.outcome is Outcome.OK_LENGTH
        assert record.n_prompt_tokens == 32
        assert record.n_output_tokens == len(record.token_ns) == 15 + planned.max_tokens
        assert record.n_reasoning_tokens == 15
        assert record.step_tokens == (5, 5, 5, planned.max_tokens)
        contexts = (37, 44 - glued, 51 - glued, 52 - glued + planned.max_tokens)
        assert record.step_kv_tokens == contexts
        assert record.step_start_ns[0] == record.intended_ns
        ends = zip(record.step_done_ns, record.step_start_ns[1:], strict=False)
        assert all(start - (end or 0) == think_ns for end, start in ends)
        assert all((a or 0) < (b or 0) for a, b in pairwise(record.step_first_ns))
        assert record.first_output_ns == record.step_first_ns[-1]
    rows = step_rows(to_frame(read_rows(session.run)))
    growth = rows["kv_growth"].to_numpy().reshape(8, 4)[:, :3]
    assert (growth == [5, 7 - glued, 7]).all()
    assert (rows["ttft_s"] > 0).all()


def test_depth_nought_is_one_call(tmp_path: Path) -> None:
    """A chain without reasoning steps sends what a plain request sends, and has no steps."""
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, chained(depth=0)).to_end()
        log = truth.log()
    _, records = records_of(run.path)
    assert len(log) == len(records) == 8
    assert all(len(entry["body"]["messages"]) == 1 for entry in log)
    assert {record.step_start_ns for record in records} == {()}


def test_no_extension_of_the_bundled_server_is_sent(tmp_path: Path) -> None:
    """A foreign server would refuse `cot_depth`: chained calls are plain calls."""
    with truth_server() as truth:
        Run(truth.url, tmp_path, chained()).to_end()
        assert not any("cot_depth" in entry["body"] for entry in truth.log())


def test_a_chain_stops_at_the_call_that_fails(tmp_path: Path) -> None:
    """One user, every sixth call fails: chains of four break at their second or fourth call."""
    with truth_server(fail_every=6) as truth:
        run = Run(truth.url, tmp_path, chained(concurrency=1)).to_end()
        log = truth.log()
    _, records = records_of(run.path)
    failed = [record for record in records if not record.outcome.is_ok]
    assert len(records) == 8
    assert len(failed) == len(log) // 6 > 0
    for record in failed:
        n_made = len(record.step_start_ns)
        assert record.error == f"call {n_made} of 4: HTTP 500: planted"
        assert (record.outcome, record.http_status) == (Outcome.HTTP_ERROR, 500)
        assert record.step_first_ns[-1] is None
    assert sum(len(record.step_start_ns) for record in records) == len(log)


def test_a_cancelled_chain_leaves_one_record_with_the_calls_it_made(tmp_path: Path) -> None:
    """Past the grace: no further call is sent, the row says at which call it ended."""
    with truth_server(ttft_ms=150) as truth:
        run = Run(truth.url, tmp_path, chained(depth=9))
        gevent.spawn_later(0.4, run.solo.drain, 0.1)
        run.to_end()
        log = truth.log()
    _, records = records_of(run.path)
    assert [record.outcome for record in records] == [Outcome.CANCELLED] * 4
    assert sum(record.sent_ns is not None for record in records) == 4
    assert all("of 10" in (record.error or "") for record in records)
    assert len(log) < 4 * 10


def test_a_stop_ends_a_chain_in_its_pause(tmp_path: Path) -> None:
    """Think time of 30 s between the calls: a stop does not wait for it."""
    with truth_server() as truth:
        run = Run(truth.url, tmp_path, chained(think_time_s=30.0))
        gevent.spawn_later(0.5, run.solo.drain, 5.0)
        run.to_end()
        assert len(truth.log()) == 4
    _, records = records_of(run.path)
    assert [record.error for record in records] == [
        "call 2 of 4: the run was stopped before this call"
    ] * 4
    assert {record.outcome for record in records} == {Outcome.CANCELLED}
