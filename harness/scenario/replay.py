"""A load that was seen, written down as a scenario that `tailbreak run` sends again.

A replay is made of what is known: a rate gives an open loop, sequences in flight a closed one;
lengths of single requests give five equally likely prompt lengths, totals one mean length.
"""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness.base.errors import Problem, ScenarioError
from harness.scenario.read import parse_scenario
from harness.scenario.schema import MAX_REQUESTS, Api

FEWEST: Final = 64
MOST: Final = 20_000
"""Requests a cell: the fault's own number between these."""
MAX_RATE: Final = 1_000_000.0


@dataclass(frozen=True, kw_only=True)
class SeenLoad:
    """A load as it was seen; None is what nobody told.

    Attributes:
        origin: where it was seen, for the file's first line.
        rate_rps: requests a second.
        concurrency: requests in flight.
        n_requests: how many were seen or are wanted.
        prompt_tokens: typical prompt lengths, each as likely as the others.
        output_tokens: mean length of the answers.
        output_spread: how far lengths of answers lie around it.
        url, api, model: the target.
        temperature: as it was asked for.
        notes: what the file says of doubtful values.
    """

    origin: str
    rate_rps: float | None = None
    concurrency: int | None = None
    n_requests: int | None = None
    prompt_tokens: tuple[int, ...] = ()
    output_tokens: int | None = None
    output_spread: int = 0
    url: str | None = None
    api: Api = "openai-chat"
    model: str | None = None
    temperature: float | None = None
    notes: tuple[str, ...] = ()


def replay_toml(load: SeenLoad) -> str:
    """The scenario, as TOML that `tailbreak run` accepts.

    Raises:
        ScenarioError: too little is known, or a value is beyond what a scenario may hold.
    """
    missing = [
        name
        for name, is_there in (
            ("a rate or a number in flight", load.rate_rps or load.concurrency),
            ("prompt lengths", load.prompt_tokens),
            ("answer lengths", load.output_tokens),
        )
        if not is_there
    ]
    if missing:
        problem = Problem(
            where=load.origin,
            got="",
            allowed=f"a load to replay; nothing tells {', '.join(missing)}",
        )
        raise ScenarioError("replay", [problem])
    text = "\n".join(_lines(load)) + "\n"
    parse_scenario(text, "replay")
    return text


def _lines(load: SeenLoad) -> Iterator[str]:
    yield f"# Replays the load of {_comment(load.origin)}."
    yield from (f"# {_comment(note)}" for note in load.notes)
    if load.url is None:
        yield "# tailbreak run FILE --target URL --model NAME; without --target the bundled server"
    yield 'schema = 1\nname = "replay"'
    yield f"title = {json.dumps(_title(load), ensure_ascii=False)}\nseed = 1\n"
    yield "[target]"
    if load.url is not None:
        yield f"url = {json.dumps(load.url)}"
    yield f"api = {json.dumps(load.api)}"
    if load.model is not None:
        yield f"model = {json.dumps(load.model, ensure_ascii=False)}"
    yield "\n[load]"
    yield from _pace(load)
    n_cells = len(load.prompt_tokens)
    n = min(MOST, MAX_REQUESTS, max(FEWEST, math.ceil((load.n_requests or 0) / n_cells)))
    yield f"requests_per_cell = {n}\nsegments_per_cell = 4\n"
    tokens = max(1, load.output_tokens or 1)
    yield f"[output]\ntokens = {tokens}\nspread = {min(load.output_spread, tokens - 1)}\n"
    if load.temperature is not None:
        yield f"[sampling]\ntemperature = {load.temperature:.6g}\n"
    yield f"[axes]\nprompt_tokens = {list(load.prompt_tokens)}"


def _pace(load: SeenLoad) -> Iterator[str]:
    if load.rate_rps:
        in_flight = max(64, 4 * (load.concurrency or 16))
        yield f'mode = "open"\nrate_rps = {min(MAX_RATE, max(0.001, load.rate_rps)):.6g}'
        yield f'arrivals = "poisson"\nusers = {min(10_000, in_flight)}'
    else:
        yield f'mode = "closed"\nconcurrency = {min(10_000, load.concurrency or 1)}'


def _title(load: SeenLoad) -> str:
    return _comment(f"Replay of {load.origin}")[:200]


def _comment(text: str) -> str:
    """Text from outside on one line of a comment."""
    return "".join(c if c.isprintable() else " " for c in text)[:300]


def fifths(lengths: Sequence[float]) -> tuple[int, ...]:
    """Five lengths that are equally likely: the 10th, 30th, 50th, 70th and 90th per cent."""
    ordered = sorted(lengths)
    if not ordered:
        return ()
    places = (
        min(len(ordered) - 1, int(len(ordered) * share)) for share in (0.1, 0.3, 0.5, 0.7, 0.9)
    )
    return tuple(sorted({max(1, round(ordered[place])) for place in places}))
