"""One choice of a request on its way out: tokens become text, and time becomes an account.

`Answer` follows one sequence's events. It decodes reasoning and content apart, holds back what
might be the beginning of a stop string or of a character, counts tokens, and stamps the front's
share of the phases; the engine's share arrives with the events. `answers` puts the choices of a
request together; how the text is wrapped is `sse`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harness.server.api_error import ApiError
from harness.server.job import EndItem, TokenItem
from harness.server.phases import GcPauses, Stopwatch
from harness.server.stop_scanner import StopScanner
from harness.server.tokenizer import Detokenizer

if TYPE_CHECKING:
    from harness.server.generation import Choice
    from harness.server.job import Job
    from harness.server.tokenizer import TextTokenizer


class TokenLogprob(NamedTuple):
    """What is told of one token of the answer.

    Attributes:
        likeliest: (token id, log-probability), falling.
        offset: Characters of the answer before this token.
    """

    token_id: int
    logprob: float
    likeliest: list[tuple[int, float]]
    offset: int


class Delta(NamedTuple):
    """A piece of a choice's text; `n_output` and `n_reasoning` count the tokens up to it."""

    choice_index: int
    kind: str
    text: str
    n_output: int
    n_reasoning: int
    logprobs: tuple[TokenLogprob, ...] = ()


class Finish(NamedTuple):
    """A choice is complete; `logprobs` are of tokens whose text was not given out."""

    choice_index: int
    reason: str
    logprobs: tuple[TokenLogprob, ...] = ()


class FirstText(NamedTuple):
    """The account of the time to a choice's first text: the engine's part and the front's."""

    watch: Stopwatch
    engine_account: dict[str, int]


class Answer:
    """Assembles one choice from the engine's events.

    Attributes:
        watch: The front's account since the engine's latest event.
        end: How the engine ended the sequence, when it has.
        first: The account of the first text, when there is one.
        finish_reason: `length` or `stop` once the answer is complete.
    """

    def __init__(
        self,
        index: int,
        choice: Choice,
        stops: tuple[str, ...],
        job: Job,
        tokenizer: TextTokenizer,
        pauses: GcPauses,
    ) -> None:
        self._index = index
        self._pauses = pauses
        self._job = job
        self._decoders = {
            "reasoning": Detokenizer(tokenizer),
            "content": Detokenizer(tokenizer),
        }
        self._scanner = StopScanner(stops)
        self._kind = "reasoning" if choice.has_reasoning else "content"
        self._is_first_handed = False
        self._n_characters = 0
        self._logprobs: list[TokenLogprob] = []
        self.watch = Stopwatch(pauses)
        self.end: EndItem | None = None
        self.first: FirstText | None = None
        self.n_output = 0
        self.n_reasoning = 0
        self.finish_reason = "length"

    def read(self) -> list[Delta | Finish]:
        """Turn the events that are there into text.

        Raises:
            ApiError: The engine died, or the model gave no finite logit.
        """
        items = self._job.take()
        events: list[Delta | Finish] = []
        is_ending = bool(items) and isinstance(items[-1], EndItem)
        if is_ending:
            self._begin_laps(items[-1].until_ns)
        for item in items:
            if isinstance(item, TokenItem):
                self._read_token(item, events, is_ending=is_ending)
            else:
                self._read_end(item, events)
        return events

    def _begin_laps(self, until_ns: int) -> None:
        """Begin the front's account where the engine's ends; the way here is `stream`."""
        self.watch.restart(until_ns)
        self.watch.lap("stream")

    def _read_token(
        self, item: TokenItem, events: list[Delta | Finish], *, is_ending: bool
    ) -> None:
        """Decode a token, unless the answer has already stopped."""
        if self._scanner.has_stopped:
            return
        if self.first is None and not is_ending:
            self._begin_laps(item.until_ns)
        self.n_output += 1
        if item.kind != self._kind:
            self._flush(events)
            self._kind = item.kind
        self.n_reasoning += item.kind == "reasoning"
        text = self._decoders[item.kind].push(item.token_id)
        if item.kind == "content":
            if item.logprobs is not None:
                self._note_logprobs(item.token_id, *item.logprobs)
            self._n_characters += len(text)
            text = self._scanner.push(text)
        if text:
            events.append(self._delta(text))
            if self.first is None:
                self._note_first(item)
        if self._scanner.has_stopped:
            self.finish_reason = "stop"
            self._job.stop()

    def _note_logprobs(
        self, token_id: int, logprob: float, likeliest: list[tuple[int, float]]
    ) -> None:
        """Keep what is told of a token until its text goes out."""
        self._logprobs.append(TokenLogprob(token_id, logprob, likeliest, self._n_characters))

    def _note_first(self, item: TokenItem) -> None:
        """Open the account of the time to the first text."""
        if item.account is None:
            return
        self.watch.lap("detokenize")
        first = Stopwatch(self._pauses, item.until_ns)
        first.laps_ns = dict(self.watch.laps_ns)
        spent_ns = sum(first.laps_ns.values())
        # Non-zero when the front was so late that token and end were read together.
        late_ns = self.watch.last_ns - item.until_ns - spent_ns
        first.laps_ns["stream"] = first.laps_ns.get("stream", 0) + late_ns
        first.last_ns = self.watch.last_ns
        self.first = FirstText(first, item.account)

    def _read_end(self, item: EndItem, events: list[Delta | Finish]) -> None:
        """Close the text; keep the engine's account."""
        self.end = item
        if item.reason == "engine_died":
            raise ApiError(500, "the engine process died; restart the server", code="engine_died")
        if item.reason == "replay_differs":
            raise ApiError(
                500,
                "the engine process died, and another one gave other tokens than those already "
                "sent; send the request again",
                code="replay_differs",
            )
        if item.reason == "error":
            raise ApiError(500, "the model gave no finite logit", code="model_error")
        if not self._scanner.has_stopped:
            self._flush(events)
            has_stopped = item.reason == "stop" or self._scanner.has_stopped
            self.finish_reason = "stop" if has_stopped else "length"
        events.append(Finish(self._index, self.finish_reason, self._take_logprobs()))
        self.watch.lap("detokenize")

    def _flush(self, events: list[Delta | Finish]) -> None:
        """Give out what decoder and scanner held back."""
        text = self._decoders[self._kind].finish()
        if self._kind == "content":
            text = self._scanner.push(text)
            if not self._scanner.has_stopped:
                text += self._scanner.finish()
        if text:
            events.append(self._delta(text))

    def _delta(self, text: str) -> Delta:
        logprobs = self._take_logprobs() if self._logprobs and self._kind == "content" else ()
        return Delta(self._index, self._kind, text, self.n_output, self.n_reasoning, logprobs)

    def _take_logprobs(self) -> tuple[TokenLogprob, ...]:
        taken = tuple(self._logprobs)
        self._logprobs.clear()
        return taken

    def note_handed(self) -> None:
        """Stamp that the latest deltas are with the socket; the first time ends TTFT."""
        if self.first is not None and not self._is_first_handed:
            self.first.watch.lap("stream")
            self._is_first_handed = True

    def abandon(self) -> None:
        """Stop caring: the client is gone, or the engine is."""
        self._job.abandon()
