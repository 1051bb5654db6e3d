"""Reasoning steps: what each one took, from a request's step columns.

A step's TTFT counts from its start: the intended send of a chain's call, or the last token of the
step before where the server goes on by itself. Requests without steps have no row here.
"""

from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.metrics.throughput import STRETCH

NS: Final = 1e9
Values = NDArray[np.float64]


def step_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per step, request by request.

    Columns: the request's segment and session; `step`, from 1, the answer last; `ttft_s`;
    `duration_s`, start to end; `tokens`; `kv_tokens`, context length after the step; `kv_growth`,
    what the step added to it, the separator before it included. NaN where it is not known.
    """
    n_steps = _n_steps(rows)
    start, first, done = (_flat(rows, name) for name in ("start_ns", "first_ns", "done_ns"))
    step = _positions(n_steps) + 1
    kv_tokens = _flat(rows, "kv_tokens")
    n_prompt = rows["n_prompt_tokens"].to_numpy(dtype=float, na_value=np.nan)
    before = np.where(step == 1, np.repeat(n_prompt, n_steps), _shifted(kv_tokens))
    return pd.DataFrame(
        {
            **{name: np.repeat(rows[name].to_numpy(), n_steps) for name in STRETCH},
            "step": step,
            "ttft_s": (first - start) / NS,
            "duration_s": (done - start) / NS,
            "tokens": _flat(rows, "tokens"),
            "kv_tokens": kv_tokens,
            "kv_growth": kv_tokens - before,
        }
    )


def think_s(rows: pd.DataFrame) -> Values:
    """Planned pauses inside each request: from the end of a chain's call to the next one's start.

    Shapes:
        returns (n_requests,); 0 without a chain.
    """
    n_steps = _n_steps(rows)
    pause = _flat(rows, "start_ns") - _shifted(_flat(rows, "done_ns"))
    return _summed(np.where(_positions(n_steps) > 0, pause, 0.0), n_steps) / NS


def call_lag_s(rows: pd.DataFrame) -> Values:
    """What the load generator itself added between the calls of each request.

    Shapes:
        returns (n_requests,); 0 without a chain.
    """
    n_steps = _n_steps(rows)
    lag = _flat(rows, "sent_ns") - _flat(rows, "start_ns")
    return _summed(np.where(_positions(n_steps) > 0, lag, 0.0), n_steps) / NS


def _n_steps(rows: pd.DataFrame) -> NDArray[np.int64]:
    return rows["step_start_ns"].map(len).to_numpy(dtype=np.int64)


def _flat(rows: pd.DataFrame, name: str) -> Values:
    lists = [np.asarray(values, dtype=float) for values in rows[f"step_{name}"]]
    return np.concatenate(lists) if lists else np.empty(0)


def _positions(n_steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """0, 1, ... inside each request."""
    starts = np.cumsum(n_steps) - n_steps
    return np.arange(n_steps.sum()) - np.repeat(starts, n_steps)


def _shifted(values: Values) -> Values:
    """Each step's predecessor; the very first has none."""
    return np.concatenate([np.full(min(1, len(values)), np.nan), values[:-1]])


def _summed(values: Values, n_steps: NDArray[np.int64]) -> Values:
    owner = np.repeat(np.arange(len(n_steps)), n_steps)
    return np.bincount(owner, weights=values, minlength=len(n_steps)).astype(float)
