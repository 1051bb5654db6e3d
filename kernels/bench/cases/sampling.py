"""From logits with penalties to a token: peaked and flat rows, with and without filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from kernels.bench.case import BACKENDS, NATIVE, SMART, VLLM, Case, Target
from kernels.bench.cases.penalties import build_states
from kernels.bench.peers import Setting, SmartEager, VllmEager
from kernels.bench.timing import Contender
from kernels.bench.workload import Shape, make_histories, make_logits
from kernels.penalties import apply_penalties
from kernels.sampling import build_settings, sample

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from kernels.backend import Backend
    from kernels.penalties import PenaltyState

HISTORY: Final = 512
TOP_P: Final = Setting(top_p=0.9)
TOP_K_P: Final = Setting(top_k=50, top_p=0.9)
OPEN: Final = Setting()
WITHOUT: Final = f"{NATIVE}, no penalties"
MOST_S: Final = {
    ("peaked", 1, TOP_K_P, 1): 25e-6,
    ("peaked", 1, TOP_P, 1): 70e-6,
    ("flat", 1, TOP_P, 1): 400e-6,
    ("peaked", 32, TOP_P, 2): 1.2e-3,
}
"""By shape, rows, filters and threads, over a vocabulary of 128,256 tokens."""


def build_cases(*, is_quick: bool) -> Iterator[Case]:
    """V = 32768 and 128256, 1 to 32 rows; two threads where the rows are many."""
    if is_quick:
        yield _case("peaked", 2048, 2, TOP_K_P, 1)
        return
    for n_seqs in (1, 8, 32):
        for setting in (TOP_K_P, TOP_P):
            yield _case("peaked", 32768, n_seqs, setting, 1)
    for n_seqs, n_threads in ((1, 1), (8, 1), (32, 1), (32, 2)):
        for setting in (TOP_K_P, TOP_P, OPEN):
            yield _case("peaked", 128256, n_seqs, setting, n_threads)
    for n_seqs in (1, 8):
        yield _case("flat", 128256, n_seqs, TOP_P, 1)


def _case(shape: Shape, vocab_size: int, n_seqs: int, setting: Setting, n_threads: int) -> Case:
    most_s = MOST_S.get((shape, n_seqs, setting, n_threads)) if vocab_size == 128256 else None
    is_easy = shape == "peaked" and setting != OPEN
    target = Target(
        most_s=most_s,
        least_ratios={VLLM: 200, SMART: 15} if is_easy else {},
        most_added={WITHOUT: 0.05},
    )
    return Case(
        op="sampling",
        shape=f"V={vocab_size} B={n_seqs} {shape} {setting.tell()}",
        # The logits once, 8 bytes for each seen token and 8 for each result.
        n_bytes=n_seqs * (4 * vocab_size + 8 * 2 * HISTORY + 8),
        n_threads=n_threads,
        contenders=lambda: list(_contenders(shape, vocab_size, n_seqs, setting)),
        target=target if NATIVE in BACKENDS else None,
    )


def _contenders(
    shape: Shape, vocab_size: int, n_seqs: int, setting: Setting
) -> Iterator[Contender]:
    logits = make_logits(shape, n_seqs, vocab_size)
    prompts = make_histories(n_seqs, vocab_size, HISTORY, seed=1)
    outputs = make_histories(n_seqs, vocab_size, HISTORY, seed=2)
    subject = logits.clone()

    def contender(name: str, step: Callable[[Tensor], Tensor], note: str = "") -> Contender:
        return Contender(
            name=name, run=partial(step, subject), reset=lambda: subject.copy_(logits), note=note
        )

    settings = build_settings(
        n_seqs,
        temperature=setting.temperature,
        top_k=setting.top_k,
        top_p=setting.top_p,
        seed=range(n_seqs),
    )
    for backend in BACKENDS:
        states = build_states(prompts, outputs, setting, vocab_size, backend)
        yield contender(backend, partial(_step, states, settings, backend))
    if NATIVE in BACKENDS:
        yield contender(WITHOUT, partial(_draw, settings, NATIVE))
    smart, vllm = SmartEager(prompts, outputs, setting), VllmEager(prompts, outputs, setting)
    note = "" if smart.is_exact(logits) else "not exact: the nucleus is wider than its window"
    yield contender(SMART, smart.step, note)
    yield contender(VLLM, vllm.step)


def _step(
    states: list[PenaltyState | None], settings: NDArray[np.void], backend: Backend, logits: Tensor
) -> Tensor:
    apply_penalties(logits, states, backend=backend)
    return _draw(settings, backend, logits)


def _draw(settings: NDArray[np.void], backend: Backend, logits: Tensor) -> Tensor:
    return sample(logits, settings, backend=backend).token_ids
