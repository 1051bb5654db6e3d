"""Prompts of an exact length in the target's own tokens, no two alike.

A prompt is a salt, then running prose from a seeded place of the shipped public-domain text, cut at
a word, then filled with single-token words until the count is exact. The tokenizer comes in as a
function, so this module stays pure; without one the length is estimated and the caller must say so.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import NamedTuple

import numpy as np

CountMany = Callable[[list[str]], list[int]]

N_SALT_WORDS = 3
TOKENS_PER_WORD_GUESS = 1.4
MAX_ROUNDS = 12
N_SAMPLES = 40
SAMPLE_WORDS = 60
FILLED = 16


class LengthEstimate(NamedTuple):
    """Tokens of a prompt on a target that cannot count: `fixed + per_word * n_words`.

    `fixed` holds the salt and whatever the target adds; words are those of the prose.
    """

    fixed: float = 2 * (N_SALT_WORDS + 1) * TOKENS_PER_WORD_GUESS
    per_word: float = TOKENS_PER_WORD_GUESS


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """One prompt.

    Attributes:
        text: what is sent.
        is_exact: whether its length was counted by the target and equals what was asked.
    """

    text: str
    is_exact: bool


def load_words() -> tuple[str, ...]:
    """The words of the shipped prose, in reading order."""
    text = resources.files("harness.plan").joinpath("text/prose.txt").read_text(encoding="utf-8")
    return tuple(text.split())


class PromptBuilder:
    """Builds prompts for one target.

    Args:
        words: the prose, as words.
        count_many: tokens of each text on the target, template excluded; None where the target
            offers no way to count.
        overhead: tokens that the target adds to every prompt (chat template, start token).
        estimate: lengths where `count_many` is None.
    """

    def __init__(
        self,
        words: Sequence[str],
        count_many: CountMany | None,
        overhead: int = 0,
        estimate: LengthEstimate | None = None,
    ) -> None:
        self._words = words
        self._count_many = count_many
        self._estimate = estimate or LengthEstimate()
        if count_many:
            density = self._measure_density()
            self._estimate = LengthEstimate(overhead + 2 * (N_SALT_WORDS + 1) * density, density)
        self._overhead = overhead
        self._tokens_per_word = self._estimate.per_word
        self._fillers = self._single_token_words() if count_many else []

    def build(self, wanted: Sequence[tuple[int, int]]) -> list[Prompt]:
        """Prompts for (prompt_tokens, prompt_seed) pairs, in order.

        All prompts are refined together, so the target is asked a few large questions, not many
        small ones. A prompt shorter than its salt and template is the shortest possible, not exact.
        """
        drafts = [self._draft(tokens, seed) for tokens, seed in wanted]
        if self._count_many is None:
            return [Prompt(text=draft.text(), is_exact=False) for draft in drafts]
        self._refine(drafts)
        return [Prompt(text=draft.text(), is_exact=draft.is_exact) for draft in drafts]

    def sample(self, n_words: int, prompt_seed: int) -> str:
        """A prompt of this many words of prose beside its salt, as `estimate` counts them."""
        draft = self._draft(0, prompt_seed)
        draft.n_words = n_words
        return draft.text()

    def _draft(self, prompt_tokens: int, prompt_seed: int) -> "_Draft":
        rng = np.random.Generator(np.random.PCG64(prompt_seed))
        picks = rng.integers(0, len(self._words), size=N_SALT_WORDS + 1)
        salt = [f"{int(rng.integers(0, 10_000)):04d}"] + [
            self._words[pick] for pick in picks[:N_SALT_WORDS]
        ]
        n_tokens = prompt_tokens - self._overhead
        n_words = max(1, round((prompt_tokens - self._estimate.fixed) / self._estimate.per_word))
        return _Draft(
            salt=salt,
            words=self._words,
            start=int(picks[-1]),
            n_words=n_words,
            n_tokens=n_tokens,
        )

    def _refine(self, drafts: "list[_Draft]") -> None:
        open_drafts = list(drafts)
        for _ in range(MAX_ROUNDS):
            if not open_drafts:
                return
            counts = self._count([draft.text() for draft in open_drafts])
            for draft, count in zip(open_drafts, counts, strict=True):
                draft.adjust(count, self._fillers, self._tokens_per_word)
            open_drafts = [draft for draft in open_drafts if not draft.is_settled]

    def _count(self, texts: list[str]) -> list[int]:
        assert self._count_many is not None
        return self._count_many(texts)

    def _measure_density(self) -> float:
        """Mean tokens per word of the prose on this target."""
        sample = [
            " ".join(self._words[start : start + SAMPLE_WORDS])
            for start in range(0, len(self._words), max(1, len(self._words) // N_SAMPLES))
        ]
        n_words = sum(text.count(" ") + 1 for text in sample)
        return max(0.1, sum(self._count(sample)) / n_words)

    def _single_token_words(self) -> list[str]:
        """Words that add exactly one token wherever they are appended."""
        candidates = list(dict.fromkeys(word for word in self._words[:4000] if word.isalpha()))[:64]
        base = "and"
        counts = self._count([base, *(f"{base} {word}" for word in candidates)])
        return [
            word
            for word, count in zip(candidates, counts[1:], strict=True)
            if count == counts[0] + 1
        ]


class _Draft:
    """A prompt on its way to the exact length: prose in steps, then fillers one by one.

    Attributes:
        n_words: words of prose.
    """

    def __init__(
        self, *, salt: list[str], words: Sequence[str], start: int, n_words: int, n_tokens: int
    ) -> None:
        self._salt = salt
        self._words = words
        self._start = start
        self.n_words = n_words
        self._n_tokens = n_tokens
        self._n_fillers = 0
        self._fillers: list[str] = []
        self._n_rounds = 0
        self.is_exact = False
        self.is_settled = False

    def text(self) -> str:
        """The prompt as it stands."""
        n = len(self._words)
        prose = [self._words[(self._start + i) % n] for i in range(self.n_words)]
        rng_free_fill = [
            self._fillers[(self._start + i) % len(self._fillers)] for i in range(self._n_fillers)
        ]
        return " ".join([*self._salt, *prose, *rng_free_fill])

    def adjust(self, count: int, fillers: list[str], tokens_per_word: float) -> None:
        """Move towards the wanted length, given the length the target counted."""
        self._fillers = fillers
        self._n_rounds += 1
        missing = self._n_tokens - count
        if missing == 0:
            self.is_exact = self.is_settled = True
        elif missing < 0:
            self._shrink(-missing, tokens_per_word)
        elif fillers and (missing <= FILLED or self._n_rounds > 3):
            self._n_fillers += missing
        else:
            self.n_words += max(1, int(missing / tokens_per_word))

    def _shrink(self, surplus: int, tokens_per_word: float) -> None:
        if self._n_fillers:
            self._n_fillers -= min(self._n_fillers, surplus)
        elif self.n_words > 0:
            self.n_words -= min(self.n_words, max(1, round(surplus / tokens_per_word)))
        elif len(self._salt) > 1:
            self._salt = self._salt[:-1]
        else:
            self.is_settled = True
