"""Asks a server the questions of a probe, one after another; holds the sockets.

The measured requests come last, so that they leave out what the server was heard to refuse.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from gevent import get_hub

from harness.base.errors import MeasurementInvalid, SetupError
from harness.load.client.adapter import Adapter, Ask
from harness.load.client.adapters import build_adapter
from harness.load.client.deadlines import Timeouts
from harness.load.client.endpoint import resolve
from harness.load.client.http import HttpClient
from harness.load.client.keep_alive import KeepAlive
from harness.load.client.models import listed_models, only_model
from harness.load.client.plain_http import PlainHttp, Reply
from harness.load.client.rx_timestamp import RxTimestamps
from harness.load.client.tokenize import TargetTokenizer, prompt_tokens_by_usage
from harness.load.probe.advice import advise
from harness.load.probe.figures import latency_figures, stream_figures
from harness.load.probe.heard import Heard, hear
from harness.load.probe.kind import ROUTES, Said, guess_kind
from harness.load.probe.parameters import (
    MAX_TOKENS,
    TEMPERATURE,
    TRIALS,
    Fields,
    Ground,
    Parameter,
    State,
    Trial,
    judge,
    judge_repeatable,
)
from harness.load.probe.result import Acceleration, Api, Probe, PromptLengths, Requests
from harness.load.probe.wording import GREEDY_PROMPT, measured_prompt
from harness.records.request import RequestRecord
from harness.records.trace import trace_id, traceparent

TIMEOUTS: Final = Timeouts(connect_s=5.0, idle_s=60.0, total_s=120.0)
APIS: Final = ("openai-chat", "openai-completions")
NEUTRAL: Final[dict[str, Any]] = {
    "temperature": 0.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0,
    "frequency_penalty": 0.0, "presence_penalty": 0.0, "repetition_penalty": 1.0,
}  # fmt: skip
"""What a run sends unless its scenario says otherwise."""
SEED: Final = 7
N_ERRORS: Final = 5
MAX_GREEDY: Final = 4
"""Greedy answers to ask for until two in a row are the same."""

Say = Callable[[str], None]


def probe(
    url: str, *, model: str | None, n: int, api_key: str | None, salt: str, say: Say
) -> Probe:
    """What `n` measured requests and some thirty small questions tell about a server.

    `salt` makes the measured prompts new to the server; `say` hears what is being asked.

    Raises:
        SetupError: nothing answers there, the key is refused, or the model must be chosen.
        MeasurementInvalid: something answers, and no streamed answer comes whole.
    """
    endpoint = resolve(url)
    get_hub().exception_stream = None  # Ctrl-C is the caller's to tell
    say("who is there")
    http = PlainHttp(url, api_key, timeout_s=TIMEOUTS.idle_s)
    stamps = RxTimestamps.detect()
    keep_alive = KeepAlive()
    client = HttpClient(endpoint, TIMEOUTS, stamps, keep_alive)
    try:
        reply = http.get("/v1/models")
        models = listed_models(reply.json())
        is_locked = reply.status in {401, 403}
        chosen = only_model(url, reply) if model is None or is_locked else model
        said = _introduce(http, reply)
        questions = _Questions(client, http, chosen, api_key, salt, say)
        api, apis = questions.find_api(url)
        parameters = questions.try_parameters()
        lengths = questions.ask_lengths()
        acceleration = questions.ask_acceleration()
        refused = {p.name for p in parameters if p.state == "refused"}
        records = [answer.record for answer in questions.measure(n, refused)]
    finally:
        client.close()
        keep_alive.close()
        stamps.close()
        http.close()
    whole = [record for record in records if record.outcome.is_ok]
    result = Probe(
        target=url,
        model=chosen,
        models=models,
        server=guess_kind(said),
        api=api,
        apis=apis,
        prompt_lengths=lengths,
        stream=stream_figures(whole),
        keeps_connections=keep_alive.is_kept,
        stamps=stamps.source.value,
        stamps_reason=stamps.reason,
        latency_s=latency_figures(whole),
        parameters=parameters,
        acceleration=acceleration,
        requests=_count(records, len(whole)),
    )
    return replace(result, advice=advise(result))


def _introduce(http: PlainHttp, models: Reply) -> dict[str, Said]:
    """What the server says about itself, by route."""
    return {"/v1/models": _said(models), **{route: _said(http.get(route)) for route in ROUTES}}


def _said(reply: Reply) -> Said:
    return Said(
        status=reply.status, server=reply.headers.get("server", ""), value=reply.json()
    )  # fmt: skip


class _Questions:
    """One server, one model, one question at a time."""

    def __init__(
        self,
        client: HttpClient,
        http: PlainHttp,
        model: str,
        api_key: str | None,
        salt: str,
        say: Say,
    ) -> None:
        self._client = client
        self._http = http
        self._model = model
        self._api_key = api_key
        self._salt = salt
        self._n_asked = 0
        self._say = say
        self._adapter: Adapter = build_adapter(APIS[0])
        self._refused_options: tuple[Parameter, ...] = ()

    def find_api(self, url: str) -> tuple[str, tuple[Api, ...]]:
        """The API to use, and what became of each; chat is preferred.

        Raises:
            SetupError: the key is missing or wrong.
            MeasurementInvalid: neither streams a whole answer.
        """
        apis = []
        for name in APIS:
            self._say(name)
            apis.append(self._try_api(name))
        usable = [api.name for api in apis if api.works]
        if not usable:
            came = "; ".join(f"{api.name}: {api.detail}" for api in apis)
            raise MeasurementInvalid(f"{url}: no streamed answer came whole: {came}")
        omitted = [p.name for p in self._refused_options]
        self._adapter = build_adapter(usable[0], omitted)
        return usable[0], tuple(apis)

    def _try_api(self, name: str) -> Api:
        """Ask for four tokens; once more without `stream_options` where those may be refused."""
        self._adapter = build_adapter(name)
        answer = self._ask(GREEDY_PROMPT, {"max_tokens": 4})
        if answer.record.http_status in {400, 422}:
            self._adapter = build_adapter(name, ("stream_options",))
            again = self._ask(GREEDY_PROMPT, {"max_tokens": 4})
            if again.is_ok:
                detail = answer.record.error or "no reason given"
                option = Parameter(name="stream_options", state="refused", detail=detail)
                self._refused_options = (option,)
                answer = again
        if answer.is_ok:
            return Api(name=name, works=True)
        if answer.record.http_status in {401, 403}:
            raise SetupError(
                f"{self._http.url}: {answer.record.error}; name the variable that holds the key "
                "with --api-key-env"
            )
        detail = answer.record.error or answer.record.outcome.value
        return Api(name=name, works=False, detail=detail)

    def try_parameters(self) -> tuple[Parameter, ...]:
        """The verdict on each request field."""
        self._say("temperature 0")
        greedy = [self._ask(GREEDY_PROMPT, {}) for _ in range(2)]
        while greedy[-1].text != greedy[-2].text and len(greedy) < MAX_GREEDY:
            greedy.append(self._ask(GREEDY_PROMPT, {}))
        ground, first = judge_repeatable(tuple(greedy), is_chat=self._adapter.is_chat)
        found = [first, *self._refused_options, self._try(TEMPERATURE, ground)]
        ground = replace(ground, is_varied=found[-1].state == "honoured")
        state: dict[str, State] = {}
        for trial in TRIALS:
            if trial.instead_of is not None and state[trial.instead_of] == "honoured":
                continue
            found.append(self._try(trial, ground))
            state[trial.name] = found[-1].state
        return tuple(found)

    def _try(self, trial: Trial, ground: Ground) -> Parameter:
        self._say(trial.name)
        prompt = trial.prompt or GREEDY_PROMPT
        return judge(trial, ground, tuple(self._ask(prompt, f) for f in trial.asks(ground)))

    def ask_lengths(self) -> PromptLengths:
        """Who counts prompt tokens."""
        self._say("prompt lengths")
        is_chat = self._adapter.is_chat
        tokenizer = TargetTokenizer.detect(self._http, self._model, is_chat=is_chat)
        if tokenizer is not None:
            return PromptLengths(
                state="exact", route=tokenizer.path, overhead=tokenizer.overhead
            )  # fmt: skip
        counted = prompt_tokens_by_usage(self._http, self._model, "and", is_chat=is_chat)
        return PromptLengths(state="guessed" if counted is None else "estimated")

    def ask_acceleration(self) -> Acceleration:
        """What the header `X-MC-Accel: true` does."""
        self._say("X-MC-Accel")
        answer = self._ask(GREEDY_PROMPT, {"max_tokens": 4}, accelerated=True)
        record = answer.record
        if answer.is_refused:
            return Acceleration(state="refused", detail=record.error or "no reason given")
        if not answer.is_ok:
            return Acceleration(state="unclear", detail=record.error or record.outcome.value)
        if record.anomalies.keys() & {"path_unconfirmed", "path_mismatch"}:
            return Acceleration(state="ignored", detail="the answer names no accelerated path")
        return Acceleration(
            state="honoured", features=record.features, detail="the answer names the path"
        )

    def measure(self, n: int, refused: set[str]) -> list[Heard]:
        """`n` requests as a run sends them, less what is refused."""
        fields = {name: value for name, value in NEUTRAL.items() if name not in refused}
        if "seed" not in refused:
            fields["seed"] = SEED
        if "ignore_eos" not in refused:
            fields["ignore_eos"] = True
        heard = []
        for number in range(n):
            self._say(f"request {number + 1} of {n}")
            heard.append(self._ask(measured_prompt(number, self._salt), fields))
        return heard

    def _ask(self, prompt: str, fields: Fields, *, accelerated: bool | None = None) -> Heard:
        """Send one request, greedy and of 24 tokens unless `fields` say otherwise."""
        sampling = {"temperature": 0.0, **fields}
        ask = Ask(
            model=self._model,
            prompt=prompt,
            max_tokens=sampling.pop("max_tokens", MAX_TOKENS),
            sampling=sampling,
            accelerated=accelerated,
            traceparent=traceparent(trace_id(f"probe {self._salt}", 1, "", self._n_asked)),
            api_key=self._api_key,
        )
        self._n_asked += 1
        exchange = self._client.exchange(self._adapter.request(ask))
        return hear(exchange, self._adapter.decode(exchange, ask, keep_text=True))


def _count(records: list[RequestRecord], n_ok: int) -> Requests:
    errors = dict.fromkeys(record.error for record in records if record.error)
    return Requests(
        n=len(records),
        n_ok=n_ok,
        outcomes=dict(Counter(record.outcome.value for record in records)),
        errors=tuple(error for error in errors if error)[:N_ERRORS],
    )
