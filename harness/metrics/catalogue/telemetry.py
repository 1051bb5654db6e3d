"""What a scrape says of itself, in a run's telemetry beside what its source said."""

from __future__ import annotations

from typing import Final

from harness.metrics.catalogue.metric import gauge

UP: Final = gauge("up", "1 for a scrape that was answered, 0 for one that was not.")
SCRAPE_ERROR: Final = gauge("scrape_error", "1 while scrapes fail for this reason.", "reason")
ODD: Final = gauge(
    "scrape_odd_lines", "Lines of the last page that had to be understood or left.", "kind"
)
LEFT_OUT: Final = gauge(
    "scrape_series_left_out", "Series of the last page beyond what is kept of one source."
)
MISSING: Final = gauge(
    "scrape_missing",
    "1 for a quantity that servers of this kind tell and this one does not.",
    "quantity",
)
