"""Which request fields a server honours, ignores or refuses; pure.

Each trial sends a few small requests that differ from a greedy one in the fields on trial, and
judges by the text that came: a penalty of +2 and -2 that leaves 24 greedy tokens as they were does
nothing. Texts prove something only where the greedy answer repeats itself, and filters only where
temperature changes it; else the verdict is `unclear`, with the reason.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from harness.load.probe.heard import Heard

State = Literal["honoured", "ignored", "refused", "unclear"]
Fields = Mapping[str, Any]
MAX_TOKENS: Final = 24
LONG_TOKENS: Final = 64
HOT: Final = 1.5
SEEDS: Final = (7, 7, 8)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """What became of one request field.

    Attributes:
        name: the field, or fields that belong together.
        state: the verdict.
        detail: what was seen, in words.
    """

    name: str
    state: State
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What the other verdicts stand on.

    Attributes:
        greedy: text of the greedy answer.
        is_repeatable: asked again it came again.
        is_chat: asked over the chat route.
        is_varied: temperature changes it.
    """

    greedy: str
    is_repeatable: bool
    is_chat: bool
    is_varied: bool = False


Judge = Callable[[Ground, tuple[Heard, ...]], tuple[State, str]]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One field on trial.

    Attributes:
        name: the field.
        asks: fields of each request, given the greedy text; empty where it cannot be tried.
        judge: verdict over the answers, all of them whole.
        prompt: other text than the greedy question's.
        instead_of: tried only where this field was not honoured: another server's name for it.
    """

    name: str
    asks: Callable[[Ground], tuple[Fields, ...]]
    judge: Judge
    prompt: str | None = None
    instead_of: str | None = None


def judge(trial: Trial, ground: Ground, heard: tuple[Heard, ...]) -> Parameter:
    """The verdict: refusals and failures first, then what the texts say."""
    if not heard:
        detail = "the greedy answer is too short to try it"
        return Parameter(name=trial.name, state="unclear", detail=detail)
    for answer in heard:
        if answer.is_refused:
            return Parameter(
                name=trial.name, state="refused", detail=answer.record.error or "no reason given"
            )
        if not answer.is_ok:
            detail = f"{answer.record.outcome}: {answer.record.error or 'no reason given'}"
            return Parameter(name=trial.name, state="unclear", detail=detail)
    state, detail = trial.judge(ground, heard)
    return Parameter(name=trial.name, state=state, detail=detail)


def judge_repeatable(greedy: tuple[Heard, ...], *, is_chat: bool) -> tuple[Ground, Parameter]:
    """What the same greedy question, asked several times, gives: the ground and its verdict.

    The last two decide: a prompt that comes from a cache may be computed in another order.
    """
    texts = [answer.text for answer in greedy]
    is_repeatable = len(texts) > 1 and texts[-1] == texts[-2] != ""
    if not is_repeatable:
        state: State = "ignored"
        detail = f"{len(texts)} greedy answers, {len(set(texts))} texts: no parameter can be judged"
    elif len(set(texts)) > 1:
        state, detail = "honoured", "repeatable once the prompt was seen; the first answer differed"
    else:
        state, detail = "honoured", "the same text each time"
    ground = Ground(greedy=texts[-1], is_repeatable=is_repeatable, is_chat=is_chat)
    return ground, Parameter(name="temperature 0", state=state, detail=detail)


def _changed(ground: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    """A field that must change a greedy text in one direction or the other."""
    if not ground.is_repeatable:
        return "unclear", "greedy answers are not repeatable"
    n = sum(answer.text != ground.greedy for answer in heard)
    if n:
        return "honoured", f"{n} of {len(heard)} texts changed"
    return "ignored", f"{len(heard)} extreme values left the greedy text as it was"


def _pinned(ground: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    """A filter that, at a high temperature, must bring the greedy text back."""
    if not ground.is_repeatable or not ground.is_varied:
        return "unclear", "needs repeatable greedy answers and a temperature that changes them"
    if all(answer.text == ground.greedy for answer in heard):
        return "honoured", f"only the likeliest token is left at temperature {HOT:g}"
    return "ignored", f"at temperature {HOT:g} the text still varies"


def _seeded(_: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    same, again, other = (answer.text for answer in heard)
    if same != again:
        return "ignored", "the same seed gave two texts"
    if same == other:
        return "unclear", "two seeds gave the same text"
    return "honoured", "the same seed gave the same text, another seed another"


def _stopped(ground: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    word, (answer,) = stop_text(ground.greedy), heard
    if not ground.is_repeatable:
        return "unclear", "greedy answers are not repeatable"
    if len(answer.text) < len(ground.greedy) and word not in answer.text:
        return "honoured", f"the answer ends before {word!r}"
    return "ignored", f"the answer runs past {word!r}"


def _limited(_: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    (answer,) = heard
    n = answer.record.n_output_tokens or 0
    seen = f"{n} tokens by {answer.record.count_source}, 4 asked"
    return ("honoured" if n <= 4 else "ignored"), seen


def _ran_on(_: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    free, forced = heard
    n_free, n_forced = (answer.record.n_output_tokens or 0 for answer in heard)
    seen = f"{n_forced} of {LONG_TOKENS} tokens with it, {n_free} without"
    if "length" in forced.record.finish_reason or n_forced >= LONG_TOKENS:
        if "length" in free.record.finish_reason or n_free >= LONG_TOKENS:
            return "unclear", f"the model did not stop by itself: {seen}"
        return "honoured", seen
    return "ignored", seen


def _several(_: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    n = heard[0].n_choices
    return ("honoured" if n == 2 else "ignored"), f"{n} of 2 choices came"


def _with_logprobs(_: Ground, heard: tuple[Heard, ...]) -> tuple[State, str]:
    has = any(answer.has_logprobs for answer in heard)
    return ("honoured", "in the stream") if has else ("ignored", "none came")


def _strict(_: Ground, __: tuple[Heard, ...]) -> tuple[State, str]:
    return "ignored", "fields that it does not know are ignored in silence"


def stop_text(greedy: str) -> str:
    """A word from the middle of the greedy answer that does not occur before; empty without."""
    words = greedy.split()
    for word in words[len(words) // 3 :]:
        if len(word) > 1 and greedy.find(word) > 0:
            return word
    return ""


def _both_signs(name: str, low: float, high: float) -> Callable[[Ground], tuple[Fields, ...]]:
    return lambda _: ({name: high}, {name: low})


def _hot(**fields: Any) -> Callable[[Ground], tuple[Fields, ...]]:
    return lambda _: tuple({"temperature": HOT, "seed": seed, **fields} for seed in SEEDS[1:])


def _logprobs_asks(ground: Ground) -> tuple[Fields, ...]:
    asked = {"logprobs": True, "top_logprobs": 1} if ground.is_chat else {"logprobs": 1}
    return ({**asked, "max_tokens": 4},)


def _stop_asks(ground: Ground) -> tuple[Fields, ...]:
    word = stop_text(ground.greedy)
    return ({"stop": [word]},) if word else ()


TEMPERATURE: Final = Trial(name="temperature", asks=_hot(), judge=_changed)

TRIALS: Final = (
    Trial(
        name="seed",
        asks=lambda _: tuple({"temperature": HOT, "seed": seed} for seed in SEEDS),
        judge=_seeded,
    ),
    Trial(name="top_k", asks=_hot(top_k=1), judge=_pinned),
    Trial(name="top_p", asks=_hot(top_p=0.001), judge=_pinned),
    Trial(name="min_p", asks=_hot(min_p=1.0), judge=_pinned),
    Trial(
        name="frequency_penalty", asks=_both_signs("frequency_penalty", -2.0, 2.0), judge=_changed
    ),
    Trial(name="presence_penalty", asks=_both_signs("presence_penalty", -2.0, 2.0), judge=_changed),
    Trial(
        name="repetition_penalty", asks=_both_signs("repetition_penalty", 0.5, 2.0), judge=_changed
    ),
    Trial(
        name="repeat_penalty",
        asks=_both_signs("repeat_penalty", 0.5, 2.0),
        judge=_changed,
        instead_of="repetition_penalty",
    ),
    Trial(name="stop", asks=_stop_asks, judge=_stopped),
    Trial(name="max_tokens", asks=lambda _: ({"max_tokens": 4},), judge=_limited),
    Trial(
        name="ignore_eos",
        asks=lambda _: (
            {"max_tokens": LONG_TOKENS},
            {"max_tokens": LONG_TOKENS, "ignore_eos": True},
        ),
        judge=_ran_on,
        prompt="Answer with the single word yes.",
    ),
    Trial(name="n", asks=lambda _: ({"n": 2, "max_tokens": 4},), judge=_several),
    Trial(name="logprobs", asks=_logprobs_asks, judge=_with_logprobs),
    Trial(name="an unknown field", asks=lambda _: ({"no_such_field": 1},), judge=_strict),
)
