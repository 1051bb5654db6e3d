"""One request on its way out: tokens become text, and time becomes an account.

`Answer` follows a job's events. It decodes reasoning and content apart, holds back what might be
the beginning of a stop string or of a character, counts tokens, and stamps the front's share of the
phases; the engine's share arrives with the events. How the text is wrapped is `sse`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from harness.server.api_error import ApiError
from harness.server.engine_link import EndItem, TokenItem
from harness.server.phases import GcPauses, Stopwatch
from harness.server.timings import Timings, in_seconds
from harness.server.tokenizer import Detokenizer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from harness.server.engine_link import EngineLink
    from harness.server.generation import Generation
    from harness.server.tokenizer import TextTokenizer


class Delta(NamedTuple):
    """A piece of text; `n_output` and `n_reasoning` count the tokens up to it."""

    kind: str
    text: str
    n_output: int
    n_reasoning: int


class StopScanner:
    """Finds stop strings in text that comes in pieces; holds back what may still become one."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.has_stopped = False

    def push(self, text: str) -> str:
        """Take a piece; return what is certain to be before any stop string."""
        if not self._stops:
            return text
        text = self._held + text
        places = [place for place in (text.find(stop) for stop in self._stops) if place >= 0]
        if places:
            self.has_stopped = True
            self._held = ""
            return text[: min(places)]
        n_held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - n_held :]
        return text[: len(text) - n_held]

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


class Answer:
    """Assembles one request's answer from the engine's events.

    Attributes:
        finish_reason: `length` or `stop` once the answer is complete.
    """

    def __init__(
        self, generation: Generation, link: EngineLink, tokenizer: TextTokenizer, pauses: GcPauses
    ) -> None:
        self._generation = generation
        self._link = link
        self._pauses = pauses
        self._job = generation.submit(link)
        self._decoders = {
            "reasoning": Detokenizer(tokenizer),
            "content": Detokenizer(tokenizer),
        }
        self._scanner = StopScanner(generation.stops)
        self._kind = "reasoning" if generation.has_reasoning else "content"
        self._watch = Stopwatch(pauses)
        self._end: EndItem | None = None
        self._first: tuple[Stopwatch, dict[str, int]] | None = None
        self._is_first_handed = False
        self.n_output = 0
        self.n_reasoning = 0
        self.finish_reason = "length"

    async def deltas(self) -> AsyncIterator[list[Delta]]:
        """Yield text as it comes; all that is there at once comes as one list.

        Raises:
            ApiError: The engine died, or the model gave no finite logit.
        """
        while self._end is None:
            items = await self._job.take()
            deltas = self._read(items)
            if deltas:
                yield deltas

    def _read(self, items: list[TokenItem | EndItem]) -> list[Delta]:
        """Turn a batch of events into text."""
        deltas: list[Delta] = []
        last = items[-1]
        if isinstance(last, EndItem):
            self._begin_laps(last.until_ns)
        for item in items:
            if isinstance(item, TokenItem):
                self._read_token(item, deltas, is_ending=isinstance(last, EndItem))
            else:
                self._read_end(item, deltas)
        return deltas

    def _begin_laps(self, until_ns: int) -> None:
        """Begin the front's account where the engine's ends; the way here is `stream`."""
        self._watch.restart(until_ns)
        self._watch.lap("stream")

    def _read_token(self, item: TokenItem, deltas: list[Delta], *, is_ending: bool) -> None:
        """Decode a token, unless the answer has already stopped."""
        if self._scanner.has_stopped:
            return
        if self._first is None and not is_ending:
            self._begin_laps(item.until_ns)
        self.n_output += 1
        if item.kind != self._kind:
            self._flush(deltas)
            self._kind = item.kind
        self.n_reasoning += item.kind == "reasoning"
        text = self._decoders[item.kind].push(item.token_id)
        if item.kind == "content":
            text = self._scanner.push(text)
        if text:
            deltas.append(self._delta(text))
            self._note_first(item)
        if self._scanner.has_stopped:
            self.finish_reason = "stop"
            self._link.stop(self._job)

    def _note_first(self, item: TokenItem) -> None:
        """Open the account of the time to the first token."""
        if self._first is not None or item.account is None:
            return
        self._watch.lap("detokenize")
        first = Stopwatch(self._pauses, item.until_ns)
        first.laps_ns = dict(self._watch.laps_ns)
        spent_ns = sum(first.laps_ns.values())
        # Non-zero when the front was so late that token and end were read together.
        late_ns = self._watch.last_ns - item.until_ns - spent_ns
        first.laps_ns["stream"] = first.laps_ns.get("stream", 0) + late_ns
        first.last_ns = self._watch.last_ns
        self._first = (first, item.account)

    def _read_end(self, item: EndItem, deltas: list[Delta]) -> None:
        """Close the text; keep the engine's account."""
        self._end = item
        if item.reason == "engine_died":
            raise ApiError(500, "the engine process died; restart the server", code="engine_died")
        if item.reason == "error":
            raise ApiError(500, "the model gave no finite logit", code="model_error")
        if not self._scanner.has_stopped:
            self._flush(deltas)
            has_stopped = item.reason == "stop" or self._scanner.has_stopped
            self.finish_reason = "stop" if has_stopped else "length"
        self._watch.lap("detokenize")

    def _flush(self, deltas: list[Delta]) -> None:
        """Give out what decoder and scanner held back."""
        text = self._decoders[self._kind].finish()
        if self._kind == "content":
            text = self._scanner.push(text)
            if not self._scanner.has_stopped:
                text += self._scanner.finish()
        if text:
            deltas.append(self._delta(text))

    def _delta(self, text: str) -> Delta:
        return Delta(self._kind, text, self.n_output, self.n_reasoning)

    def note_handed(self) -> None:
        """Stamp that the latest deltas are with the socket; the first time ends TTFT."""
        if self._first is not None and not self._is_first_handed:
            self._first[0].lap("stream")
            self._is_first_handed = True

    def lap(self, phase: str) -> None:
        """Charge the front's time since the last lap."""
        self._watch.lap(phase)

    def abandon(self) -> None:
        """Stop caring: the client is gone, or the engine is."""
        self._link.abandon(self._job)

    @property
    def usage(self) -> dict[str, object]:
        """Exact token counts, whatever text they made."""
        return self._generation.usage(self.n_output, self.n_reasoning)

    def timings(self) -> Timings:
        """Give the account up to now; every phase of the catalogue is present."""
        self._watch.lap("stream")
        end = self._end or EndItem(0, "cancelled", 0, 0, [], {})
        generation = self._generation
        account = (generation.front_ns, end.account, self._watch.laps_ns)
        ttft_phases: dict[str, float] = {}
        ttft_s = None
        if self._first is not None:
            first, engine_account = self._first
            ttft_phases = in_seconds(generation.front_ns, engine_account, first.laps_ns)
            ttft_s = (first.last_ns - generation.arrival_ns) / 1e9
        return Timings(
            phases=in_seconds(*account),
            ttft_phases=ttft_phases,
            wall_s=(self._watch.last_ns - generation.arrival_ns) / 1e9,
            ttft_s=ttft_s,
            steps=end.steps,
            n_evictions=end.n_evictions,
            kv_tokens=end.kv_tokens,
            path=generation.path,
            features=generation.features,
            n_output=self.n_output,
        )
