"""A run's rows as a pandas frame: the form in which records, metrics and reports meet."""

import pandas as pd

from harness.records.store import StoredRows

MAP_COLUMNS = ("phases", "ttft_phases", "anomalies")


def to_frame(rows: StoredRows) -> pd.DataFrame:
    """One row per request; maps become dicts, lists stay arrays, absent numbers become NaN."""
    frame: pd.DataFrame = rows.table.to_pandas()
    for name in MAP_COLUMNS:
        frame[name] = frame[name].map(dict)
    return frame
