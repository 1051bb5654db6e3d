"""From logits with penalties to a token: peaked and flat rows, with and without filters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kernels.bench.case import SMART, TORCH, VLLM, Case
from kernels.bench.peers import Setting, SmartEager, VllmEager
from kernels.bench.timing import Contender
from kernels.bench.workload import Shape, make_histories, make_logits
from kernels.penalties import Penalties, apply_penalties, build_penalty_state
from kernels.sampling import build_settings, sample

if TYPE_CHECKING:
    from torch import Tensor

HISTORY = 512
TOP_P = Setting(top_p=0.9)
TOP_K_P = Setting(top_k=50, top_p=0.9)
OPEN = Setting()


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """V = 32768 and 128256, 1 to 32 rows."""
    if is_quick:
        yield _case("peaked", 2048, 2, TOP_K_P, 1)
        return
    for vocab_size in (32768, 128256):
        for n_seqs in (1, 8, 32):
            for setting in (TOP_K_P, TOP_P, OPEN):
                for n_threads in (1,) if n_seqs == 1 else (1, 2):
                    yield _case("peaked", vocab_size, n_seqs, setting, n_threads)
    for n_seqs in (1, 8):
        yield _case("flat", 128256, n_seqs, TOP_P, 1)


def _case(shape: Shape, vocab_size: int, n_seqs: int, setting: Setting, n_threads: int) -> Case:
    return Case(
        op="sampling",
        shape=f"V={vocab_size} B={n_seqs} {shape} {setting.tell()}",
        # The logits once, 8 bytes for each seen token and 8 for each result.
        n_bytes=n_seqs * (4 * vocab_size + 8 * 2 * HISTORY + 8),
        n_threads=n_threads,
        contenders=lambda: _contenders(shape, vocab_size, n_seqs, setting),
    )


def _contenders(shape: Shape, vocab_size: int, n_seqs: int, setting: Setting) -> list[Contender]:
    logits = make_logits(shape, n_seqs, vocab_size)
    prompts = make_histories(n_seqs, vocab_size, HISTORY, seed=1)
    outputs = make_histories(n_seqs, vocab_size, HISTORY, seed=2)
    subject = logits.clone()
    smart, vllm = SmartEager(prompts, outputs, setting), VllmEager(prompts, outputs, setting)
    eager = _Eager(prompts, outputs, setting, vocab_size)

    def reset() -> Tensor:
        return subject.copy_(logits)

    note = "" if smart.is_exact(logits) else "not exact: the nucleus is wider than its window"
    return [
        Contender(name=TORCH, run=lambda: eager.step(subject), reset=reset),
        Contender(name=SMART, run=lambda: smart.step(subject), reset=reset, note=note),
        Contender(name=VLLM, run=lambda: vllm.step(subject), reset=reset),
    ]


class _Eager:
    """Our torch backend, its counts kept from step to step as the server keeps them."""

    def __init__(
        self, prompts: list[list[int]], outputs: list[list[int]], setting: Setting, vocab_size: int
    ) -> None:
        penalties = Penalties(
            repetition=setting.repetition, frequency=setting.frequency, presence=setting.presence
        )
        self._states = [
            build_penalty_state(penalties, prompt, vocab_size=vocab_size, backend="torch")
            for prompt in prompts
        ]
        for state, output in zip(self._states, outputs, strict=True):
            for token_id in output:
                state.accept(token_id)
        self._settings = build_settings(
            len(prompts),
            temperature=setting.temperature,
            top_k=setting.top_k,
            top_p=setting.top_p,
            seed=range(len(prompts)),
        )

    def step(self, logits: Tensor) -> Tensor:
        apply_penalties(logits, self._states, backend="torch")
        return sample(logits, self._settings, backend="torch").token_ids
