"""The judging half of the probe, against toy servers that honour exactly what they are told to."""

import zlib
from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.load.probe.advice import advise
from harness.load.probe.figures import latency_figures, stream_figures
from harness.load.probe.heard import Heard
from harness.load.probe.kind import Said, ServerKind, guess_kind
from harness.load.probe.parameters import (
    TEMPERATURE,
    TRIALS,
    Fields,
    Ground,
    Parameter,
    Trial,
    judge,
    judge_repeatable,
)
from harness.load.probe.result import Acceleration, Api, Probe, PromptLengths, Requests
from harness.metrics.latency import e2e_s, itl_s, ttft_s
from harness.records.request import Outcome, RequestRecord
from tests.make_records import make_record

TEXT = "the lamp at the harbour burns all night and the keeper never sleeps"
PINS = {"top_k", "top_p", "min_p"}


class ToyServer:
    """Answers in ways that depend on the fields it honours and on nothing else."""

    def __init__(self, honours: set[str], refuses: Collection[str] = ()) -> None:
        self.honours = honours
        self.refuses = set(refuses)

    def answer(self, fields: Fields) -> Heard:
        """The answer to a request of these fields."""
        bad = self.refuses & set(fields)
        if bad:
            error = f"HTTP 400: {min(bad)} is not supported"
            return heard("", outcome=Outcome.HTTP_ERROR, http_status=400, error=error)
        given = {name: value for name, value in fields.items() if name in self.honours}
        text = self._text(given)
        n = min(given.get("max_tokens", 24), 12 if not given.get("ignore_eos") else 64)
        choices = ("length",) * int(given.get("n", 1))
        return heard(
            text,
            n_output_tokens=n,
            finish_reason=choices if n != 12 else ("stop",) * len(choices),
            has_logprobs=bool(given.get("logprobs")),
        )

    def _text(self, given: dict[str, Any]) -> str:
        text = TEXT
        is_hot = given.get("temperature", 0.0) > 0 and not PINS & set(given)
        if is_hot:
            text = f"{text[::-1]} {given.get('seed', 0)}"
        penalties = {name: v for name, v in given.items() if "penalty" in name}
        if penalties:
            text = f"{zlib.crc32(repr(sorted(penalties.items())).encode())} {text}"
        for stop in given.get("stop", ()):
            text = text.partition(stop)[0]
        return text


def heard(text: str, *, has_logprobs: bool = False, **changes: Any) -> Heard:
    return Heard(record=make_record(text=text, **changes), has_logprobs=has_logprobs)


def verdicts(server: ToyServer) -> dict[str, str]:
    """Every verdict, in the order of a real probe."""
    greedy = server.answer({}), server.answer({})
    ground, first = judge_repeatable(greedy, is_chat=True)
    hot = try_one(server, TEMPERATURE, ground)
    ground = Ground(
        greedy=ground.greedy, is_repeatable=True, is_chat=True, is_varied=hot.state == "honoured"
    )
    found = [first, hot, *(try_one(server, trial, ground) for trial in TRIALS)]
    return {parameter.name: parameter.state for parameter in found}


def try_one(server: ToyServer, trial: Trial, ground: Ground) -> Parameter:
    return judge(trial, ground, tuple(server.answer(fields) for fields in trial.asks(ground)))


NAMES = [trial.name for trial in TRIALS if trial.name != "an unknown field"]
ALL = {"temperature", *NAMES}


def test_a_server_that_honours_everything_is_said_to() -> None:
    """No verdict but `honoured`."""
    found = verdicts(ToyServer(ALL))
    found.pop("an unknown field")
    assert set(found.values()) == {"honoured"}
    assert set(found) == {"temperature 0", *ALL}


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"max_tokens"}))
def test_one_ignored_field_is_found_and_no_other(name: str) -> None:
    """Dropping a field in silence turns its verdict, and only its, to `ignored`."""
    found = verdicts(ToyServer(ALL - {name}))
    assert found[name] == "ignored" if name != "seed" else found[name] != "honoured"
    others = {other: state for other, state in found.items() if other != name}
    others.pop("an unknown field")
    assert set(others.values()) == {"honoured"}


def test_an_ignored_temperature_leaves_what_stands_on_it_open() -> None:
    """Seeds and filters cannot be judged where nothing varies: `unclear`, never `honoured`."""
    found = verdicts(ToyServer(ALL - {"temperature"}))
    assert found["temperature"] == "ignored"
    assert {found[name] for name in ("seed", "top_k", "top_p", "min_p")} == {"unclear"}
    assert found["frequency_penalty"] == "honoured"


@pytest.mark.parametrize("name", ["top_k", "repetition_penalty", "n", "logprobs", "no_such_field"])
def test_a_refusal_keeps_the_servers_words(name: str) -> None:
    """A 400 is `refused`, with what the server said."""
    server = ToyServer(ALL, refuses={name})
    wanted = "an unknown field" if name == "no_such_field" else name
    trial = next(trial for trial in TRIALS if trial.name == wanted)
    found = try_one(server, trial, Ground(greedy=TEXT, is_repeatable=True, is_chat=True))
    assert (found.state, name in found.detail) == ("refused", True)


def test_a_seed_is_judged_by_its_own_texts() -> None:
    """Even where greedy answers are not repeatable: the same seed must give the same text."""
    trial = next(trial for trial in TRIALS if trial.name == "seed")
    ground = Ground(greedy=TEXT, is_repeatable=False, is_chat=True)
    states = [
        judge(trial, ground, tuple(heard(text) for text in texts)).state
        for texts in ("aab", "abc", "aaa")
    ]
    assert states == ["honoured", "ignored", "unclear"]


def test_a_broken_answer_is_no_verdict() -> None:
    """A reset in the middle of a trial is `unclear`."""
    broken = heard("", outcome=Outcome.RESET, http_status=None, error="gone")
    ground = Ground(greedy=TEXT, is_repeatable=True, is_chat=True)
    found = judge(TRIALS[1], ground, (broken, broken))
    assert (found.state, found.detail) == ("unclear", "reset: gone")


def test_without_repeatable_answers_no_text_proves_anything() -> None:
    """Two greedy texts: the verdict says so, and a changed text is no proof of a penalty."""
    ground, first = judge_repeatable((heard("a"), heard("b")), is_chat=True)
    assert first.state == "ignored"
    assert not ground.is_repeatable
    trial = next(trial for trial in TRIALS if trial.name == "frequency_penalty")
    assert judge(trial, ground, (heard("c"), heard("d"))).state == "unclear"


def test_an_answer_from_a_cache_may_differ_from_the_first() -> None:
    """First one text, then another again and again: repeatable, on the later one."""
    ground, first = judge_repeatable((heard("a"), heard("b"), heard("b")), is_chat=True)
    assert (first.state, ground.greedy, ground.is_repeatable) == ("honoured", "b", True)


MODELS = "/v1/models"


@pytest.mark.parametrize(
    ("said", "name", "version"),
    [
        ({MODELS: {"data": [{"id": "m", "owned_by": "vllm"}]}, "/version": {"version": "0.9"}},
         "vLLM", "0.9"),
        ({MODELS: {"data": [{"id": "m", "owned_by": "sglang"}]}}, "SGLang", None),
        ({MODELS: {"data": [{"id": "m", "owned_by": "llamacpp"}]}, "/props": {"build_info": "b1"}},
         "llama.cpp", "b1"),
        ({MODELS: {"data": [{"id": "m", "owned_by": "me"}]},
          "/openapi.json": {"info": {"title": "llama.cpp Python API", "version": "0.3"}}},
         "llama-cpp-python", "0.3"),
        ({"/info": {"model_id": "x", "version": "3.0"}}, "TGI", "3.0"),
        ({"/api/version": {"version": "0.5"}}, "Ollama", "0.5"),
        ({MODELS: {"data": [None, {"owned_by": 3}]}, "/openapi.json": {"info": "x"}},
         "unknown", None),
        ({MODELS: []}, "unknown", None),
    ],
)  # fmt: skip
def test_a_server_is_known_by_its_own_words(
    said: dict[str, Any], name: str, version: str | None
) -> None:
    """Owner, routes and titles; odd shapes are no server's."""
    kind = guess_kind({route: Said(status=200, value=value) for route, value in said.items()})
    assert (kind.name, kind.version) == (name, version)


def test_a_failed_route_and_a_header_are_weighed() -> None:
    """A 404 with a body says nothing; the Server header is the last to be asked."""
    said = {"/version": Said(status=404, value={"version": "1"}, server="llama.cpp")}
    assert guess_kind(said).name == "llama.cpp"
    assert guess_kind({"/version": Said(status=404, value={"version": "1"})}).name == "unknown"


stamps = st.lists(st.integers(1, 10**9), min_size=1, max_size=8, unique=True).map(sorted)


@st.composite
def streams(draw: st.DrawFn) -> RequestRecord:
    """An answer of any chunks, tokens per chunk and late reads."""
    chunks = draw(stamps)
    counts = draw(st.lists(st.integers(1, 3), min_size=len(chunks), max_size=len(chunks)))
    late = draw(st.lists(st.booleans(), min_size=len(chunks), max_size=len(chunks)))
    tokens = tuple(ns for ns, n in zip(chunks, counts, strict=True) for _ in range(n))
    return make_record(
        start_ns=0, chunk_ns=tuple(chunks), token_ns=tokens, late_read=tuple(late),
        first_token_ns=chunks[0], done_ns=chunks[-1], n_output_tokens=len(tokens),
    )  # fmt: skip


@given(st.lists(streams(), min_size=1, max_size=4))
def test_figures_are_those_of_the_report(records: list[RequestRecord]) -> None:
    """Without numpy, the same medians and ranges as `harness.metrics.latency`."""
    rows = pd.DataFrame([{n: getattr(r, n) for n in r.__dataclass_fields__} for r in records])
    figures = latency_figures(records)
    for name, values in {
        "ttft_s": ttft_s(rows),
        "itl_s": itl_s(rows),
        "e2e_s": e2e_s(rows),
    }.items():
        assert (name in figures) == (len(values) > 0)
        if len(values):
            figure = figures[name]
            assert figure.n == len(values)
            expected = [np.median(values), values.min(), values.max()]
            assert np.allclose([figure.median, figure.low, figure.high], expected)


def make_probe(**changes: Any) -> Probe:
    """A probe of a server that does everything right."""
    records = [make_record()]
    values: dict[str, Any] = {
        "target": "http://127.0.0.1:1",
        "model": "m",
        "models": ("m",),
        "server": ServerKind(),
        "api": "openai-chat",
        "apis": (Api(name="openai-chat", works=True),),
        "prompt_lengths": PromptLengths(state="exact", route="/tokenize", overhead=4),
        "stream": stream_figures(records),
        "keeps_connections": True,
        "stamps": "kernel",
        "stamps_reason": "",
        "latency_s": latency_figures(records),
        "parameters": (Parameter(name="temperature 0", state="honoured"),),
        "acceleration": Acceleration(state="ignored"),
        "requests": Requests(n=1, n_ok=1, outcomes={"ok": 1}),
    }
    return Probe(**{**values, **changes})


def test_a_faultless_server_needs_no_advice() -> None:
    """Nothing to set, nothing to expect."""
    assert advise(make_probe()) == ()


def parameter(name: str, state: str) -> Parameter:
    return Parameter(name=name, state=state)  # type: ignore[arg-type]  # one of the four


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"parameters": (parameter("repetition_penalty", "ignored"),
                         parameter("repeat_penalty", "honoured"))}, 'target.api = "llamacpp-chat"'),
        ({"parameters": (parameter("top_k", "refused"), parameter("seed", "refused"))},
         'target.omit = ["top_k", "seed"]'),
        ({"parameters": (parameter("presence_penalty", "ignored"),)},
         "no axis over presence_penalty"),
        ({"parameters": (parameter("ignore_eos", "ignored"),)}, "output.ignore_eos = false"),
        ({"parameters": (parameter("temperature 0", "ignored"),)}, "greedy answers differ"),
        ({"prompt_lengths": PromptLengths(state="estimated")}, "estimates"),
        ({"prompt_lengths": PromptLengths(state="guessed")}, "guesses"),
        ({"stream": stream_figures([make_record(count_source="chunks")])}, "carries no usage"),
        ({"stream": stream_figures([make_record(late_read=(True,) * 4)])}, "100% of the chunks"),
        ({"stream": stream_figures([make_record(n_output_tokens=12)])}, "3.0 tokens a chunk"),
        ({"keeps_connections": False}, "closes each connection"),
        ({"stamps": "user", "stamps_reason": "no Linux"}, "no Linux"),
    ],
)  # fmt: skip
def test_each_shortcoming_has_its_advice(changes: dict[str, Any], words: str) -> None:
    """What to set or what to expect, in words."""
    assert any(words in line for line in advise(make_probe(**changes)))


def test_the_result_is_plain_json() -> None:
    """Every attribute, under its own name, beside the schema's number."""
    value = make_probe().to_json()
    assert value["schema"] == 1
    assert set(value) == {"schema", *Probe.__dataclass_fields__}
