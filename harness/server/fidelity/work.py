"""What both paths are asked: prompts of many lengths, some that begin alike, one that reasons.

More of them than an engine has slots, so that some are admitted late: only those can begin with
blocks that another one left in the prefix cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from harness.base.errors import SetupError
from harness.base.rng import seed_for
from harness.plan.prompts import PromptBuilder, load_words
from harness.server.contiguous import FIRST_CAPACITY
from harness.server.sequence import Segment

if TYPE_CHECKING:
    from harness.server.options import ServerOptions
    from harness.server.tokenizer import TextTokenizer

N_OUTPUT: Final = 24
STEP_TOKENS: Final = 8
SEPARATOR: Final = "\nAnswer: "
LENGTHS: Final = (17, 33, 48, 64, 90, 128, 200, 256)
N_LATE: Final = 4
SHARED: Final = 64
"""Tokens that a late prompt has in common with an early one: four blocks."""
LEAST_PROMPT: Final = 8


class Work(NamedTuple):
    """A prompt, and what is generated after it."""

    tokens: list[int]
    segments: tuple[Segment, ...]

    @property
    def n_output(self) -> int:
        """Tokens of all segments."""
        return sum(segment.n_tokens for segment in self.segments)


def build_works(
    tokenizer: TextTokenizer, options: ServerOptions, *, max_model_len: int, seed: int
) -> list[Work]:
    """Lay the prompts out, within what the server's options have room for.

    Raises:
        SetupError: the options leave no room for any prompt.
    """
    separator = tuple(tokenizer.encode(SEPARATOR))
    reasoning = Segment(kind="reasoning", n_tokens=STEP_TOKENS, forced=separator)
    room = min(max_model_len, _largest_range(options.kv_tokens))
    room -= N_OUTPUT + STEP_TOKENS + len(separator)
    if room < LEAST_PROMPT:
        raise SetupError(
            f"max_model_len {max_model_len} and kv_tokens {options.kv_tokens} leave {room} tokens "
            f"for a prompt, allowed at least {LEAST_PROMPT}: raise them"
        )
    n_early = max(len(LENGTHS), options.max_num_seqs)
    lengths = [min(LENGTHS[i % len(LENGTHS)], room) for i in range(n_early)]
    prompts = _prompts(tokenizer, lengths, seed)
    longest = sorted(prompts, key=len)[-N_LATE:]
    prompts += [early[:SHARED] + prompts[i][1:17] for i, early in enumerate(longest)]
    answer = Segment(kind="content", n_tokens=N_OUTPUT)
    return [
        Work(tokens[:room], (reasoning, answer) if i == 2 else (answer,))
        for i, tokens in enumerate(prompts)
    ]


def _largest_range(kv_tokens: int) -> int:
    """The longest context that the baseline can hold."""
    capacity = FIRST_CAPACITY
    while 2 * capacity <= kv_tokens:
        capacity *= 2
    return capacity


def _prompts(tokenizer: TextTokenizer, lengths: list[int], seed: int) -> list[list[int]]:
    def count(texts: list[str]) -> list[int]:
        return [len(tokenizer.encode(text)) for text in texts]

    builder = PromptBuilder(load_words(), count, overhead=1)
    wanted = [(n, seed_for(seed, "fidelity", "prompt", i)) for i, n in enumerate(lengths)]
    return [[tokenizer.bos_id, *tokenizer.encode(each.text)] for each in builder.build(wanted)]
