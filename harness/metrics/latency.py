"""What each latency means, once: from stamps to seconds, per request.

Latencies count from the *intended* send, so that waiting for a free user, a late event loop or a
stalled server never vanishes; the `service_*` variants count from the real send. Undefined is NaN
in a column and null in a file, never 0.
"""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

NS: Final = 1e9
Seconds = NDArray[np.float64]


def ttft_s(rows: pd.DataFrame) -> Seconds:
    """Time to first token: first content, reasoning or tool text, from the intended send."""
    return _between(rows, "intended_ns", "first_token_ns")


def ttfo_s(rows: pd.DataFrame) -> Seconds:
    """Time to first output: first text that is no reasoning, from the intended send."""
    return _between(rows, "intended_ns", "first_output_ns")


def e2e_s(rows: pd.DataFrame) -> Seconds:
    """Intended send to the last byte."""
    return _between(rows, "intended_ns", "done_ns")


def service_ttft_s(rows: pd.DataFrame) -> Seconds:
    """Time to first token from the real send."""
    return _between(rows, "sent_ns", "first_token_ns")


def service_e2e_s(rows: pd.DataFrame) -> Seconds:
    """Real send to the last byte."""
    return _between(rows, "sent_ns", "done_ns")


def dispatch_lag_s(rows: pd.DataFrame) -> Seconds:
    """Real send minus intended send: what the load generator itself added."""
    return _between(rows, "intended_ns", "sent_ns")


def rx_lag_s(rows: pd.DataFrame) -> Seconds:
    """Largest user-space read minus receive stamp of a request; NaN without kernel stamps."""
    return _column(rows, "rx_lag_ns") / NS


def tpot_s(rows: pd.DataFrame) -> Seconds:
    """Time per output token after the first: (E2E - TTFT) / (n_output_tokens - 1).

    NaN for fewer than two tokens, and where all tokens came in one chunk.
    """
    n_tokens = _column(rows, "n_output_tokens")
    n_chunks = rows["chunk_ns"].map(len).to_numpy(dtype=float)
    defined = (n_tokens >= 2) & (n_chunks >= 2)
    spread = e2e_s(rows) - ttft_s(rows)
    return np.where(defined, spread / np.where(defined, n_tokens - 1, 1.0), np.nan)


def itl_s(rows: pd.DataFrame) -> Seconds:
    """Gaps between consecutive tokens, all requests pooled in order.

    k tokens that share a chunk's stamp count k gaps of gap / k each. The first chunk has no gap
    before it. Chunks that were read together with others (late reads) have only an upper bound for
    their stamp, so neither gap beside one is used. The gap before a reasoning step's first token is
    that step's TTFT and no ITL.

    Shapes:
        returns (n_gaps,), not one value per request.
    """
    columns = ("token_ns", "chunk_ns", "late_read", "step_start_ns")
    lists = zip(*(rows[name] for name in columns), strict=True)
    gaps = [_gaps(*map(np.asarray, each)) for each in lists]
    return np.concatenate(gaps) if gaps else np.empty(0)


def _gaps(
    token_ns: NDArray[np.int64],
    chunk_ns: NDArray[np.int64],
    late: NDArray[np.bool_],
    step_start_ns: NDArray[np.int64],
) -> Seconds:
    stamps, counts = np.unique(token_ns, return_counts=True)
    if len(stamps) < 2:
        return np.empty(0)
    doubtful = set(chunk_ns[late.astype(bool)].tolist()) if late.size else set()
    exact = np.array([stamp not in doubtful for stamp in stamps.tolist()])
    keep = exact[1:] & exact[:-1]
    if len(step_start_ns) > 1:  # step k > 1 starts with, or after, the last token before it
        opened = np.searchsorted(stamps, step_start_ns[1:], side="right") - 1
        keep[opened[(opened >= 0) & (opened < len(keep))]] = False
    gap = np.diff(stamps)[keep] / NS
    n_tokens = counts[1:][keep]
    return np.repeat(gap / n_tokens, n_tokens)


LATENCIES: Final[Mapping[str, Callable[[pd.DataFrame], Seconds]]] = {
    "ttft_s": ttft_s,
    "ttfo_s": ttfo_s,
    "itl_s": itl_s,
    "tpot_s": tpot_s,
    "e2e_s": e2e_s,
    "service_ttft_s": service_ttft_s,
    "service_e2e_s": service_e2e_s,
}


def _column(rows: pd.DataFrame, name: str) -> Seconds:
    return rows[name].to_numpy(dtype=float, na_value=np.nan)


def _between(rows: pd.DataFrame, start: str, end: str) -> Seconds:
    return (_column(rows, end) - _column(rows, start)) / NS
