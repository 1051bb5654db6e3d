"""How cleanly a stream was seen: shares of late reads and of chunks that came together."""

import numpy as np
import pandas as pd


def late_read_share(rows: pd.DataFrame) -> float | None:
    """Chunks read together with others, so that their stamp is an upper bound; None without."""
    flags = [np.asarray(late, dtype=bool) for late in rows["late_read"] if len(late)]
    return float(np.concatenate(flags).mean()) if flags else None


def coalesced_share(rows: pd.DataFrame) -> float | None:
    """Gaps of zero between chunks of one response; None without a gap."""
    gaps = [np.diff(np.asarray(stamps)) for stamps in rows["chunk_ns"] if len(stamps) > 1]
    return float((np.concatenate(gaps) == 0).mean()) if gaps else None


def exact_share(rows: pd.DataFrame, counted: str, asked: str) -> float | None:
    """Rows whose counted length equals the length asked; None where nothing was counted."""
    got = rows[counted].to_numpy(dtype=float, na_value=np.nan)
    known = np.isfinite(got)
    if not known.any():
        return None
    return float((got == rows[asked].to_numpy(dtype=float))[known].mean())
