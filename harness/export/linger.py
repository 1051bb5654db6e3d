"""How long the exporter of a run that has ended stays, so that its last values are taken.

Until two scrapes came after the end, or two scrape intervals have passed; an interval is the
longest recent gap between scrapes, 15 s where only one came, and at most a minute. A page that
nobody has ever asked for ends with the run.
"""

from collections import deque
from itertools import pairwise
from typing import Final

ENOUGH: Final = 2
USUAL_S: Final = 15.0
LONGEST_S: Final = 60.0
SLACK_S: Final = 1.0
N_RECENT: Final = 6


class Linger:
    """Knows when scrapes came and when the run ended; times are the caller's seconds."""

    def __init__(self) -> None:
        self._scrapes: deque[float] = deque(maxlen=N_RECENT)
        self._end_s: float | None = None
        self._n_after = 0

    def note_scrape(self, at_s: float) -> None:
        """A scrape was answered."""
        if self._end_s is None:
            self._scrapes.append(at_s)
        else:
            self._n_after += 1

    def note_end(self, at_s: float) -> None:
        """The run has ended, and its last rows are counted."""
        self._end_s = at_s

    def is_over(self, now_s: float) -> bool:
        """Whether nobody needs the page any more."""
        if self._end_s is None:
            return False
        if not self._scrapes or self._n_after >= ENOUGH:
            return True
        return now_s - self._end_s > ENOUGH * self.interval_s + SLACK_S

    @property
    def interval_s(self) -> float:
        """Seconds between scrapes, as far as it was seen."""
        gaps = [after - before for before, after in pairwise(self._scrapes)]
        return min(max(gaps, default=USUAL_S), LONGEST_S)
