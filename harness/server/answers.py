"""All choices of one request together: their events, their counts, one account of time.

**The account of several choices.** All are handed to the engine at one stamp, and the request ends
with the choice that ends last: its phases are the request's, because it is what the client waited
for; the time of the others ran beside it. Time to the first text is that of the choice that came
first. Tokens and evictions are counted over all.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from harness.server.answer import Answer, Delta, Finish, TokenLogprob
from harness.server.job import EndItem
from harness.server.timings import Timings, in_seconds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from harness.server.generation import Generation
    from harness.server.phases import GcPauses
    from harness.server.tokenizer import TextTokenizer

_NO_END = EndItem(0, "cancelled", 0, 0, [], {})


class ChoiceText(NamedTuple):
    """One complete choice."""

    choice_index: int
    content: str
    reasoning: str
    reason: str
    logprobs: tuple[TokenLogprob, ...]


class Answers:
    """The choices of one request, in the order of their indices.

    Attributes:
        last: The finish of the choice that ended last, once `events` is through.
    """

    def __init__(self, generation: Generation, tokenizer: TextTokenizer, pauses: GcPauses) -> None:
        self._generation = generation
        self._has_items = asyncio.Event()
        jobs = generation.submit(self._has_items)
        self._answers = [
            Answer(index, choice, generation.stops, job, tokenizer, pauses)
            for index, (choice, job) in enumerate(zip(generation.choices, jobs, strict=True))
        ]
        self.last = Finish(0, "length")

    async def events(self) -> AsyncIterator[list[Delta | Finish]]:
        """Yield text as it comes, and every finish but the last; what is there at once, as one.

        Raises:
            ApiError: The engine died, or the model gave no finite logit.
        """
        is_open = True
        while is_open:
            await self._has_items.wait()
            self._has_items.clear()
            events = self._read()
            is_open = self._is_open
            if not is_open:
                self.last = _pop_finish(events, self._slowest)
            if events:
                yield events

    @property
    def _is_open(self) -> bool:
        """Whether any choice has not ended."""
        answers = self._answers
        return answers[0].end is None or any(answer.end is None for answer in answers)

    def _read(self) -> list[Delta | Finish]:
        """Read every choice."""
        if len(self._answers) == 1:
            return self._answers[0].read()
        return [event for answer in self._answers for event in self._read_one(answer)]

    def _read_one(self, answer: Answer) -> Iterable[Delta | Finish]:
        """Read one of several choices; deltas count the tokens of the whole request."""
        events = answer.read()
        n_output, n_reasoning = (
            self.n_output - answer.n_output,
            self.n_reasoning - answer.n_reasoning,
        )
        return (
            event._replace(
                n_output=event.n_output + n_output, n_reasoning=event.n_reasoning + n_reasoning
            )
            if isinstance(event, Delta)
            else event
            for event in events
        )

    @property
    def _slowest(self) -> int:
        """Index of the choice that ended last; the first of several."""
        ends_ns = [0 if answer.end is None else answer.end.until_ns for answer in self._answers]
        return ends_ns.index(max(ends_ns))

    def note_handed(self) -> None:
        """Stamp that the latest events are with the socket."""
        for answer in self._answers:
            answer.note_handed()

    def lap(self, phase: str) -> None:
        """Charge the front's time since the last lap."""
        self._answers[self._slowest].watch.lap(phase)

    def abandon(self) -> None:
        """Stop caring: the client is gone, or the engine is."""
        for answer in self._answers:
            answer.abandon()

    @property
    def n_output(self) -> int:
        """Generated tokens of all choices."""
        return sum(answer.n_output for answer in self._answers)

    @property
    def n_reasoning(self) -> int:
        """Those of them that are reasoning."""
        return sum(answer.n_reasoning for answer in self._answers)

    @property
    def n_cached(self) -> int:
        """Prompt tokens that no choice had to compute."""
        by_prompt: dict[int, list[int]] = {}
        for choice, answer in zip(self._generation.choices, self._answers, strict=True):
            by_prompt.setdefault(choice.prompt_index, []).append((answer.end or _NO_END).n_cached)
        return sum(map(min, by_prompt.values()))

    @property
    def usage(self) -> dict[str, object]:
        """Exact token counts, whatever text they made."""
        counts = self.usage_at(self.n_output, self.n_reasoning)
        return {**counts, "prompt_tokens_details": {"cached_tokens": self.n_cached}}

    def usage_at(self, n_output: int, n_reasoning: int) -> dict[str, object]:
        """OpenAI's usage object for so many output tokens, `n_reasoning` of them reasoning."""
        n_prompt = self._generation.n_prompt
        return {
            "prompt_tokens": n_prompt,
            "completion_tokens": n_output,
            "total_tokens": n_prompt + n_output,
            "completion_tokens_details": {"reasoning_tokens": n_reasoning},
        }

    def timings(self) -> Timings:
        """Give the account up to now; every phase of the catalogue is present."""
        answer = self._answers[self._slowest]
        answer.watch.lap("stream")
        end = answer.end or _NO_END
        generation = self._generation
        ttft_phases, ttft_s = self._first_text()
        return Timings(
            phases=in_seconds(generation.front_ns, end.account, answer.watch.laps_ns),
            ttft_phases=ttft_phases,
            wall_s=(answer.watch.last_ns - generation.arrival_ns) / 1e9,
            ttft_s=ttft_s,
            steps=end.steps,
            n_evictions=sum((each.end or _NO_END).n_evictions for each in self._answers),
            kv_tokens=end.kv_tokens,
            path=generation.path,
            features=generation.features,
            pool=generation.placement.pool.name,
            n_restarts=generation.placement.n_restarts,
            n_output=self.n_output,
        )

    def _first_text(self) -> tuple[dict[str, float], float | None]:
        """Give the account of the first text of any choice."""
        firsts = [answer.first for answer in self._answers if answer.first is not None]
        if not firsts:
            return {}, None
        watch, engine_account = min(firsts, key=lambda first: first.watch.last_ns)
        phases = in_seconds(self._generation.front_ns, engine_account, watch.laps_ns)
        return phases, (watch.last_ns - self._generation.arrival_ns) / 1e9


def _pop_finish(events: list[Delta | Finish], index: int) -> Finish:
    """Take the finish of one choice out of the events."""
    for place, event in enumerate(events):
        if isinstance(event, Finish) and event.choice_index == index:
            del events[place]
            return event
    raise AssertionError("the choice that ended last did not end now")


class Texts:
    """Collects the choices of an answer that is not streamed."""

    def __init__(self, n_choices: int) -> None:
        self._texts: list[dict[str, list[str]]] = [
            {"content": [], "reasoning": []} for _ in range(n_choices)
        ]
        self._logprobs: list[list[TokenLogprob]] = [[] for _ in range(n_choices)]
        self._reasons = [""] * n_choices

    def add(self, events: Iterable[Delta | Finish]) -> None:
        """Take what has come."""
        for event in events:
            self._logprobs[event.choice_index] += event.logprobs
            if isinstance(event, Delta):
                self._texts[event.choice_index][event.kind].append(event.text)
            else:
                self._reasons[event.choice_index] = event.reason

    @property
    def choices(self) -> list[ChoiceText]:
        """Give the choices in the order of their indices."""
        return [
            ChoiceText(
                index,
                "".join(texts["content"]),
                "".join(texts["reasoning"]),
                reason,
                tuple(logprobs),
            )
            for index, (texts, reason, logprobs) in enumerate(
                zip(self._texts, self._reasons, self._logprobs, strict=True)
            )
        ]
