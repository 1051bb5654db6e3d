"""From the options of `tailbreak serve` to a comparison: the same weights, engine and limits."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from harness.base.errors import SetupError
from harness.records.fidelity import Fidelity
from harness.scenario.acceleration import header, normalised
from harness.server.accel import read_features
from harness.server.api_error import ApiError
from harness.server.engine_process import build_engine, use_threads
from harness.server.fidelity.check import OnStep, Subject, check
from harness.server.fidelity.limits import ALPHA
from harness.server.fidelity.work import build_works
from harness.server.fingerprint import fingerprint_of
from harness.server.model_config import load_config
from harness.server.pool_options import dtype_word
from harness.server.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from harness.server.options import ServerOptions
    from harness.server.pool_options import PoolOptions

Progress = Callable[[int], AbstractContextManager[OnStep]]
"""Given the number of steps, opens what is told of each."""


def measure_fidelity(
    options: ServerOptions,
    asked: AbstractSequence[str],
    *,
    baseline: str,
    n_draws: int,
    seed: int,
    progress: Progress,
) -> Fidelity:
    """Compare each asked value of X-MC-Accel with the baseline's.

    Raises:
        SetupError: a word that this build does not have, or options that leave no room.
        TailbreakError: the model cannot be loaded.
    """
    began = time.perf_counter()
    first, others = options.of_pool(_first_pool(options)), _other_pools(options)
    words = dict.fromkeys(_spelling(value, "--features") for value in asked)
    paths = [(word, _features(word, "--features", tuple(others))) for word in words]
    baseline = _spelling(baseline, "--baseline-features")
    reference = _features(baseline, "--baseline-features")
    wanted = {name for _, features in paths for name in features} & set(others)
    tokenizer = TextTokenizer.load(options.model_folder)
    start = tokenizer.for_engine
    use_threads(first.threads)
    engine, max_model_len = build_engine(first, start)
    subject = Subject(
        engine=engine,
        works=build_works(tokenizer, first, max_model_len=max_model_len, seed=seed),
        banned=_banned(start, load_config(options.model_folder).vocab_size),
        batch=first.max_num_seqs,
        baseline=reference,
        paths=paths,
        n_draws=n_draws,
        seed=seed,
        others={
            word: build_engine(options.of_pool(others[word]), start)[0] for word in sorted(wanted)
        },
    )
    with progress(subject.n_steps) as on_step:
        found = check(subject, on_step)
    names = ("max_num_seqs", "max_num_batched_tokens", "kv_tokens", "threads")
    return Fidelity(
        model=options.model_name,
        fingerprint=fingerprint_of(options),
        seed=seed,
        baseline=baseline,
        alpha=ALPHA,
        options={
            **{name: getattr(first, name) for name in names},
            "max_model_len": max_model_len,
        },
        paths=found,
        duration_s=time.perf_counter() - began,
    )


def _banned(start: dict[str, Any], n_model: int) -> list[int]:
    """Tokens that cannot be drawn where the length is prescribed, rows without a text included."""
    padding = range(start["vocab_size"], n_model)
    return [*start["control_ids"], *start["stop_ids"], *padding]


def _first_pool(options: ServerOptions) -> PoolOptions:
    """The pool that runs the baseline and all that names no pool."""
    first = options.pool[0]
    if (first.device, first.dtype) != ("cpu", "float32"):
        raise SetupError(
            f"pool: got a first pool {first}, allowed one on cpu in float32, where answers can be "
            "compared; name such a pool first"
        )
    return first


def _other_pools(options: ServerOptions) -> dict[str, PoolOptions]:
    """The first pool of each other dtype, by the word that names it."""
    others: dict[str, PoolOptions] = {}
    for pool in options.pool:
        if pool.dtype != options.pool[0].dtype:
            others.setdefault(dtype_word(pool.dtype), pool)
    return others


def _features(value: str, option: str, pools: tuple[str, ...] = ()) -> tuple[str, ...]:
    try:
        return read_features(value, pools)
    except ApiError as error:
        raise SetupError(f"{option} {value}: {error}") from error


def _spelling(value: str, option: str) -> str:
    """The one way in which a scenario would write this value."""
    try:
        return header(normalised(value))
    except ValueError as error:
        raise SetupError(f"{option}: {error}") from error
