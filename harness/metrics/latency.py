"""What each latency means, once: from stamps to seconds, per request.

Latencies count from the *intended* send, so that waiting for a free user, a late event loop or a
stalled server never vanishes; the `service_*` variants count from the real send. Undefined is NaN
in a column and null in a file, never 0.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

NS: Final = 1e9
_BATCH: Final = 2048
_ROW_NS: Final = 2**51
"""Room of a row in a key: 26 days, which no request lasts; `_BATCH` of them fit 63 bits."""
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
    batches = (rows.iloc[i : i + _BATCH] for i in range(0, len(rows), _BATCH))
    gaps = [_gaps(batch) for batch in batches]
    return np.concatenate(gaps) if gaps else np.empty(0)


def _gaps(rows: pd.DataFrame) -> Seconds:
    """Gaps of some rows. A stamp's key is its row and the time since its row's first token."""
    token_ns, row = _flat(rows["token_ns"])
    order = np.lexsort((token_ns, row))
    token_ns, row = token_ns[order], row[order]
    is_new = np.ones(len(row), dtype=bool)
    is_new[1:] = (np.diff(token_ns) != 0) | (np.diff(row) != 0)
    (first,) = np.nonzero(is_new)
    n_tokens = np.diff(np.append(first, len(row)))
    stamps, row = token_ns[first], row[first]
    begin = np.searchsorted(row, np.arange(len(rows)))
    origin = np.append(stamps, 0)[begin]
    key = row * _ROW_NS + stamps - origin[row]

    pairs = list(zip(rows["chunk_ns"], rows["late_read"], strict=True))
    chunk_ns, chunk_row = _flat([chunks[: len(late)] for chunks, late in pairs])
    is_late = _flat([late for _, late in pairs])[0].astype(bool)
    late = chunk_row[is_late] * _ROW_NS + chunk_ns[is_late] - origin[chunk_row[is_late]]
    is_exact = ~np.isin(key, late)
    keep = is_exact[1:] & is_exact[:-1] & (np.diff(row) == 0)

    step_ns, step_row = _flat([starts[1:] for starts in rows["step_start_ns"]])
    is_after = step_ns >= origin[step_row]  # a later step starts with, or after, a token
    step_key = step_row * _ROW_NS + np.minimum(step_ns - origin[step_row], _ROW_NS - 1)
    opened = np.searchsorted(key, step_key[is_after], side="right") - 1
    keep[opened[(opened >= 0) & (opened < len(keep))]] = False

    gap, n_tokens = np.diff(stamps)[keep] / NS, n_tokens[1:][keep]
    return np.repeat(gap / n_tokens, n_tokens)


def _flat(lists: Iterable[ArrayLike]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values of lists one after the other, and the number of each one's list."""
    arrays = [np.asarray(each, dtype=np.int64) for each in lists]
    values = np.concatenate([np.empty(0, np.int64), *arrays])
    return values, np.repeat(np.arange(len(arrays)), [len(each) for each in arrays])


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
