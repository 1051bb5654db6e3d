"""Real engines and sequences for the tests of this folder."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import torch

from harness.server.checkpoint import load_model
from harness.server.engine import EndEvent, Engine, TokenEvent
from harness.server.model import Llama
from harness.server.options import ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import BASELINE, Mode, SamplingParams, Segment, Sequence
from harness.server.tokenizer import TextTokenizer
from kernels.backend import has_native

WEIGHTS = Path(__file__).parents[3] / "harness/server/weights/tiny"
PAGED = Mode(layout="paged")
CACHED = Mode(layout="paged", has_prefix_cache=True)
FULL = Mode(layout="paged", has_prefix_cache=True, is_adaptive=True, is_fused=has_native())
FUSED = (Mode(is_fused=True),) if has_native() else ()
PATHS = (BASELINE, *FUSED)
PACKED = Mode(layout="packed", has_prefix_cache=True)
MODES = (*PATHS, Mode(is_adaptive=True), PAGED, CACHED, FULL)
MARGIN = 1e-4
GREEDY = SamplingParams(temperature=0.0, ignore_eos=True)


@cache
def model() -> Llama:
    torch.set_num_threads(1)
    return load_model(WEIGHTS)


@cache
def tokenizer() -> TextTokenizer:
    return TextTokenizer.load(WEIGHTS)


def control_ids() -> list[int]:
    return [tokenizer().bos_id, tokenizer().user_id, tokenizer().assistant_id]


def stop_ids() -> list[int]:
    return [tokenizer().eos_id, tokenizer().end_id]


def engine(**options: Any) -> Engine:
    return Engine(
        model(),
        ServerOptions(**options),
        max_model_len=2048,
        control_ids=control_ids(),
        stop_ids=stop_ids(),
    )


def prompt(n_tokens: int, *, salt: int = 0) -> list[int]:
    """Readable text of exactly `n_tokens` tokens."""
    text = "The mother told the child that the old house by the river was not for sale. "
    ids = [
        tokenizer().bos_id,
        *tokenizer().encode(f"Chapter {salt}. " + text * (n_tokens // 8 + 2)),
    ]
    return ids[:n_tokens]


def sequence(
    number: int,
    tokens: list[int],
    n_output: int,
    *,
    mode: Mode = BASELINE,
    params: SamplingParams = GREEDY,
    steps: tuple[Segment, ...] = (),
) -> Sequence:
    return Sequence(
        id=number,
        order=number,
        mode=mode,
        tokens=list(tokens),
        segments=(*steps, Segment(kind="content", n_tokens=n_output)),
        params=params,
        charged_until_ns=0,
    )


@dataclass
class Outcome:
    """What an engine did until it ran dry."""

    tokens: dict[int, list[int]] = field(default_factory=dict)
    kinds: dict[int, list[str]] = field(default_factory=dict)
    ends: dict[int, EndEvent] = field(default_factory=dict)
    events: list[TokenEvent] = field(default_factory=list)
    n_steps: int = 0


def run_dry(subject: Engine, sequences: list[Sequence]) -> Outcome:
    """Step until every sequence has ended, checking the books after every step."""
    outcome = Outcome()
    watch = Stopwatch(GcPauses())
    for each in sequences:
        each.charged_until_ns = watch.last_ns
        subject.add(each)
    while subject.has_work:
        events = subject.step(watch)
        watch.restart(events.until_ns)
        outcome.n_steps += 1
        assert subject.scheduler.check_integrity() == []
        outcome.events += events.tokens
        for event in events.tokens:
            outcome.tokens.setdefault(event.id, []).append(event.token_id)
            outcome.kinds.setdefault(event.id, []).append(event.kind)
        outcome.ends |= {event.id: event for event in events.ends}
    return outcome


def first_close_call(prompt: list[int], output: list[int]) -> int:
    """Check greedy tokens against the full causal pass; the position from which ties may decide."""
    with torch.no_grad():
        logits = model()(torch.tensor([prompt + output]))[0].clone()
    logits[:, [*control_ids(), *stop_ids()]] = -torch.inf
    rows = logits[len(prompt) - 1 : -1]
    best, second = rows.topk(2, dim=-1).values.unbind(-1)
    for position, token_id in enumerate(output):
        if best[position] - second[position] < MARGIN:
            return position
        assert token_id == int(rows[position].argmax()), f"position {position}"
    return len(output)
