import numpy as np
import pytest

from harness.plan.prompts import LengthEstimate, PromptBuilder, load_words

WORDS = load_words()


def count_toy(text: str) -> int:
    """A tokenizer in miniature: a word costs a token per started four letters."""
    return sum(-(-len(word) // 4) for word in text.split(" "))


def count_many(texts: list[str]) -> list[int]:
    return [count_toy(text) for text in texts]


@pytest.mark.parametrize("n_tokens", [16, 64, 257, 1000])
def test_prompts_have_exactly_the_length_asked(n_tokens: int) -> None:
    """Counted by the target's tokenizer, template included, every prompt is exact."""
    builder = PromptBuilder(WORDS, count_many, overhead=5)
    prompts = builder.build([(n_tokens, seed) for seed in range(50)])
    assert all(prompt.is_exact for prompt in prompts)
    assert {count_toy(prompt.text) + 5 for prompt in prompts} == {n_tokens}


def test_a_prompt_depends_on_its_seed_only() -> None:
    """Neither its neighbours nor the order matter."""
    builder = PromptBuilder(WORDS, count_many)
    alone = builder.build([(64, 9)])[0]
    among = builder.build([(32, 1), (64, 9), (128, 2)])[1]
    assert alone == among


def test_prompts_differ_from_the_first_word_on() -> None:
    """The salt comes first, so no two prompts share a long prefix."""
    prompts = PromptBuilder(WORDS, count_many).build([(64, seed) for seed in range(200)])
    heads = {" ".join(prompt.text.split(" ")[:4]) for prompt in prompts}
    assert len(heads) == 200


def test_an_impossible_length_is_not_called_exact() -> None:
    """Shorter than the template: the shortest prompt there is, flagged."""
    prompt = PromptBuilder(WORDS, count_many, overhead=10).build([(4, 1)])[0]
    assert prompt.text
    assert not prompt.is_exact


def test_without_a_tokenizer_lengths_are_estimates() -> None:
    """Within half of what was asked, and never called exact."""
    prompts = PromptBuilder(WORDS, None).build([(200, seed) for seed in range(20)])
    assert not any(prompt.is_exact for prompt in prompts)
    assert 100 < np.mean(count_many([prompt.text for prompt in prompts])) < 400


def test_an_estimate_calibrated_by_the_target_is_close() -> None:
    """From the counts of two samples, a template of 40 included, the mean is within 5 %."""
    blind = PromptBuilder(WORDS, None)
    short, long = (count_toy(blind.sample(n, n)) + 40 for n in (8, 136))
    per_word = (long - short) / 128
    estimate = LengthEstimate(short - 8 * per_word, per_word)
    prompts = PromptBuilder(WORDS, None, estimate=estimate).build(
        [(200, seed) for seed in range(40)]
    )
    assert 190 < np.mean(count_many([prompt.text for prompt in prompts])) + 40 < 210
    assert not any(prompt.is_exact for prompt in prompts)
