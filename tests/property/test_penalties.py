"""Random lives of a request: what is drawn, forced and taken back leaves the reference's logits."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.backend import Backend, has_native
from kernels.penalties import Penalties, apply_penalties, build_penalty_state, reference_penalties

VOCAB = 23
RUN: tuple[Backend, ...] = ("torch", "cpu") if has_native() else ("torch",)
tokens = st.lists(st.integers(0, VOCAB - 1), max_size=12)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("accept"), tokens),
        st.tuples(st.just("see"), tokens),
        st.tuples(st.just("rollback"), st.integers(0, 12)),
    ),
    max_size=12,
)
strengths = st.fixed_dictionaries(
    {
        "repetition": st.floats(0.125, 2, width=32),
        "frequency": st.floats(-2, 2, width=32),
        "presence": st.floats(-2, 2, width=32),
        "decay": st.sampled_from([0.0, 0.5, 0.8, 1.0, 1.5]),
        "window": st.sampled_from([-1, 0, 1, 3, 8]),
    }
)


@pytest.mark.parametrize("backend", RUN)
@given(prompt=tokens, life=steps, strength=strengths, seed=st.integers(0, 1 << 30))
def test_a_state_follows_any_life_of_a_request(
    backend: Backend,
    prompt: list[int],
    life: list[tuple[str, Any]],
    strength: dict[str, Any],
    seed: int,
) -> None:
    """Accepting, forcing and taking back in any order leave what the naive history leaves."""
    penalties = Penalties(**strength)
    state = build_penalty_state(penalties, prompt, vocab_size=VOCAB, backend=backend)
    output: list[int] = []
    seen = list(prompt)
    for action, argument in life:
        if action == "accept":
            for token_id in argument:
                state.accept(token_id)
            output += argument
        elif action == "see":
            state.see(argument)
            seen += argument
        else:
            n_tokens = min(argument, len(output))
            state.rollback(n_tokens)
            output = output[: len(output) - n_tokens]
    logits = np.random.default_rng(seed).normal(0, 5, (1, VOCAB)).astype(np.float32)
    expected = reference_penalties(
        logits, prompt_ids=[seen], output_ids=[output], penalties=[penalties]
    )
    apply_penalties(torch.from_numpy(logits), [state], backend=backend)
    assert (logits.view(np.int32) == expected.view(np.int32)).all()
