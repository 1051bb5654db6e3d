"""Several choices of one request put together, from engine events written by hand."""

import asyncio
import time
from typing import cast

import pytest

from harness.server.answer import Delta, Finish
from harness.server.answers import Answers, Texts
from harness.server.api_error import ApiError
from harness.server.engine_link import EngineLink
from harness.server.generation import Choice, Generation
from harness.server.job import EndItem, Job, TokenItem
from harness.server.options import ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.pools import Placement, Pool
from harness.server.sequence import SamplingParams, Segment
from tests.unit.server import build


class Desk:
    """Takes choices in as the engine's link does, and lets a test play the engine."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []
        self.stopped: list[int] = []

    @property
    def sent_ns(self) -> set[int]:
        """The stamps of all choices."""
        return {job.command["sent_ns"] for job in self.jobs}

    def take(self, job: Job) -> None:
        """Take a choice in."""
        job.id = len(self.jobs)
        self.jobs.append(job)

    def cancel(self, job: Job) -> None:
        """Note which choice is to end."""
        self.stopped.append(job.id)


def request(n_prompts: int, n: int, stops: tuple[str, ...] = ()) -> tuple[Answers, Desk]:
    """A request whose choices are with the engine."""
    choices = tuple(
        Choice(
            prompt_index=place // n,
            tokens=[1] * (10 + place // n),
            segments=(Segment(kind="content", n_tokens=8),),
            params=SamplingParams(),
        )
        for place in range(n_prompts * n)
    )
    pauses = GcPauses()
    desk = Desk()
    generation = Generation(
        request_id="r",
        arrival_ns=time.perf_counter_ns(),
        watch=Stopwatch(pauses),
        features=(),
        choices=choices,
        stops=stops,
        placement=Placement(pool=Pool(ServerOptions(), cast("EngineLink", desk), 0), n_slots=64),
    )
    return Answers(generation, build.tokenizer(), pauses), desk


def token(text: str, account: dict[str, int] | None = None) -> TokenItem:
    return TokenItem(
        time.perf_counter_ns(), build.tokenizer().encode(text)[0], "content", account or {}
    )


def end(ffn_ns: int, n_cached: int, reason: str = "length") -> EndItem:
    return EndItem(time.perf_counter_ns(), reason, 1, 20, [], {"ffn": ffn_ns}, n_cached)


async def read(answers: Answers) -> list[Delta | Finish]:
    return [event async for batch in answers.events() for event in batch]


def test_a_request_is_charged_as_its_slowest_choice() -> None:
    """Phases are those of the choice that ended last; tokens, evictions and usage are of all."""

    async def scene() -> None:
        answers, desk = request(1, 2)
        assert len(desk.sent_ns) == 1
        reading = asyncio.ensure_future(read(answers))
        desk.jobs[1].push(token(" the", {"ffn": 5}))
        await asyncio.sleep(0)
        answers.note_handed()
        desk.jobs[1].push(end(1_000, n_cached=16))
        desk.jobs[0].push(token(" a", {"ffn": 70}))
        await asyncio.sleep(0)
        desk.jobs[0].push(token(" house"))
        desk.jobs[0].push(end(9_000, n_cached=0))
        events = await reading
        assert [event for event in events if isinstance(event, Finish)] == [Finish(1, "length")]
        assert answers.last == Finish(0, "length")
        timings = answers.timings()
        assert timings.phases["ffn"] == 9e-6
        assert timings.ttft_phases["ffn"] == 5e-9
        assert (timings.n_output, timings.n_evictions) == (3, 2)
        assert sum(timings.phases.values()) <= timings.wall_s
        counts = [event.n_output for event in events if isinstance(event, Delta)]
        assert counts == [1, 2, 3]
        assert answers.usage["prompt_tokens"] == 10
        assert answers.usage["completion_tokens"] == 3

    asyncio.run(scene())


def test_cached_tokens_are_those_no_choice_computed() -> None:
    """Of each prompt the least cached choice counts; prompts add up."""

    async def scene() -> None:
        answers, desk = request(2, 2)
        for job, n_cached in zip(desk.jobs, (0, 8, 5, 9), strict=True):
            job.push(end(1, n_cached=n_cached))
        await read(answers)
        assert answers.usage["prompt_tokens"] == 10 + 11
        assert answers.usage["prompt_tokens_details"] == {"cached_tokens": 0 + 5}

    asyncio.run(scene())


def test_a_stop_text_ends_one_choice_and_not_the_other() -> None:
    """The engine is asked to stop that choice alone; each has its own reason and text."""

    async def scene() -> None:
        answers, desk = request(1, 2, stops=(" house",))
        texts = Texts(2)
        for job, word in zip(desk.jobs, (" house", " river"), strict=True):
            job.push(token(" the"))
            job.push(token(word))
        reading = asyncio.ensure_future(read(answers))
        await asyncio.sleep(0)
        assert desk.stopped == [0]
        desk.jobs[0].push(end(1, n_cached=0, reason="cancelled"))
        desk.jobs[1].push(end(1, n_cached=0))
        texts.add(await reading)
        texts.add([answers.last])
        assert [(each.content, each.reason) for each in texts.choices] == [
            (" the", "stop"),
            (" the river", "length"),
        ]

    asyncio.run(scene())


@pytest.mark.parametrize("reason", ["engine_died", "replay_differs", "error"])
def test_a_failed_choice_fails_the_request(reason: str) -> None:
    """One choice that the engine could not finish ends the whole answer with an error."""

    async def scene() -> None:
        answers, desk = request(1, 2)
        desk.jobs[0].push(token(" the"))
        desk.jobs[1].push(end(1, n_cached=0, reason=reason))
        with pytest.raises(ApiError, match=r"engine process died|no finite logit"):
            await read(answers)

    asyncio.run(scene())
