"""Turns every planned request into the text that is sent, before anything is measured."""

from collections.abc import Mapping
from dataclasses import dataclass

from harness.load.client.plain_http import PlainHttp
from harness.load.client.tokenize import TargetTokenizer, prompt_tokens_by_usage
from harness.plan.plan import Plan
from harness.plan.prompts import LengthEstimate, PromptBuilder, load_words

SAMPLES = ((8, 1), (136, 2))
"""Words and seeds of the two prompts whose usage calibrates an estimate."""


@dataclass(frozen=True, kw_only=True)
class Prompts:
    """The run's prompts.

    Attributes:
        by_segment: texts by segment id, then by the request's index.
        n_inexact: prompts whose length the target did not confirm.
        is_counted: whether the target could count at all.
    """

    by_segment: Mapping[str, Mapping[int, str]]
    n_inexact: int
    is_counted: bool


def materialise(plan: Plan, http: PlainHttp, model: str, *, is_chat: bool) -> Prompts:
    """All prompts of the plan, of the exact length on the target where it can count.

    Raises:
        SetupError: the target stopped answering.
    """
    tokenizer = TargetTokenizer.detect(http, model, is_chat=is_chat)
    builder = PromptBuilder(
        load_words(),
        tokenizer.count_many if tokenizer else None,
        tokenizer.overhead if tokenizer else 0,
        None if tokenizer else _estimate(http, model, is_chat=is_chat),
    )
    wanted = [
        (plan.cell(segment.cell).prompt_tokens, request.prompt_seed)
        for segment in plan.segments
        for request in segment.requests
    ]
    built = iter(builder.build(wanted))
    by_segment: dict[str, dict[int, str]] = {}
    n_inexact = 0
    for segment in plan.segments:
        prompts = {request.index: next(built) for request in segment.requests}
        by_segment[segment.id] = {index: prompt.text for index, prompt in prompts.items()}
        n_inexact += sum(not prompt.is_exact for prompt in prompts.values())
    return Prompts(by_segment=by_segment, n_inexact=n_inexact, is_counted=tokenizer is not None)


def _estimate(http: PlainHttp, model: str, *, is_chat: bool) -> LengthEstimate | None:
    """Prompt lengths on a target without a counting route, from the usage of two short answers."""
    builder = PromptBuilder(load_words(), None)
    counts = []
    for n_words, seed in SAMPLES:
        text = builder.sample(n_words, seed)
        counts.append(prompt_tokens_by_usage(http, model, text, is_chat=is_chat))
    short, long = counts
    if short is None or long is None or long <= short:
        return None
    per_word = (long - short) / (SAMPLES[1][0] - SAMPLES[0][0])
    return LengthEstimate(short - per_word * SAMPLES[0][0], per_word)
