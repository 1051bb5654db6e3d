"""Penalties alone: on seen tokens only, against dense tables over the vocabulary."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from kernels.bench.case import BACKENDS, SMART, VLLM, Case
from kernels.bench.peers import Setting, SmartEager, VllmEager
from kernels.bench.timing import Contender
from kernels.bench.workload import make_histories, make_logits
from kernels.penalties import Penalties, apply_penalties, build_penalty_state

if TYPE_CHECKING:
    from torch import Tensor

    from kernels.backend import Backend
    from kernels.penalties import PenaltyState

HISTORY = 512
"""Tokens of prompt, and as many of output."""


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """One and 32 rows."""
    if is_quick:
        yield _case(2, 2048)
        return
    for n_seqs in (1, 32):
        yield _case(n_seqs, 128256)


def _case(n_seqs: int, vocab_size: int) -> Case:
    histories = zip(
        make_histories(n_seqs, vocab_size, HISTORY, seed=1),
        make_histories(n_seqs, vocab_size, HISTORY, seed=2),
        strict=True,
    )
    n_seen = sum(len({*prompt, *output}) for prompt, output in histories)
    return Case(
        op="penalties",
        shape=f"V={vocab_size} B={n_seqs}, {n_seen // n_seqs} seen in a row",
        n_bytes=16 * n_seen,  # id and count, the logit read and written
        contenders=lambda: _contenders(n_seqs, vocab_size),
    )


def _contenders(n_seqs: int, vocab_size: int) -> list[Contender]:
    logits = make_logits("peaked", n_seqs, vocab_size)
    prompts = make_histories(n_seqs, vocab_size, HISTORY, seed=1)
    outputs = make_histories(n_seqs, vocab_size, HISTORY, seed=2)
    subject = logits.clone()

    def reset() -> Tensor:
        return subject.copy_(logits)

    contenders = []
    for backend in BACKENDS:
        states = build_states(prompts, outputs, Setting(), vocab_size, backend)
        run = partial(apply_penalties, subject, states, backend=backend)
        contenders.append(Contender(name=backend, run=run, reset=reset))
    for name, peer in ((SMART, SmartEager), (VLLM, VllmEager)):
        theirs = peer(prompts, outputs, Setting())
        contenders.append(Contender(name=name, run=partial(theirs.penalise, subject), reset=reset))
    return contenders


def build_states(
    prompts: list[list[int]],
    outputs: list[list[int]],
    setting: Setting,
    vocab_size: int,
    backend: Backend,
) -> list[PenaltyState | None]:
    """Every request's state after its output, as a server has it at that step."""
    penalties = Penalties(
        repetition=setting.repetition, frequency=setting.frequency, presence=setting.presence
    )
    states: list[PenaltyState | None] = []
    for prompt, output in zip(prompts, outputs, strict=True):
        state = build_penalty_state(penalties, prompt, vocab_size=vocab_size, backend=backend)
        for token_id in output:
            state.accept(token_id)
        states.append(state)
    return states
