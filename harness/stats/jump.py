"""Has a quantity jumped: several samples in a row far above what it lately was.

Sequential and cheap: one sample in, one answer out. The published rule (three in a row more than
15 % above the baseline) fires on plain noise where samples scatter by more than that; here the
limit is besides never nearer than three robust standard deviations.
"""

import statistics
from collections import deque
from dataclasses import dataclass, field
from typing import Final

RISE: Final = 0.15
IN_A_ROW: Final = 3
BASELINE: Final = 30
"""Samples that the baseline is the median of."""
LEAST: Final = 10
"""Samples before anything is said."""
SCATTERS: Final = 3.0
_TO_SIGMA: Final = 1.4826
"""Median absolute deviation to the standard deviation of a normal law."""


@dataclass(frozen=True, kw_only=True)
class Jump:
    """Samples in a row beyond the limit.

    Attributes:
        samples: they, the first first.
        baseline: median of those before.
        limit: what each of them exceeds.
    """

    samples: tuple[float, ...]
    baseline: float
    limit: float


@dataclass
class JumpWatch:
    """What a quantity lately was."""

    _before: deque[float] = field(default_factory=lambda: deque(maxlen=BASELINE))
    _beyond: list[float] = field(default_factory=list)

    def add(self, sample: float | None) -> Jump | None:
        """Take a sample; a jump on the one that completes it.

        No sample (nothing was counted, nobody answered) neither adds to a row nor breaks it.
        After a jump the new level becomes part of the baseline.
        """
        if sample is None:
            return None
        limit = self.limit
        if limit is None or sample <= limit:
            self._before.extend([*self._beyond, sample])
            self._beyond = []
            return None
        self._beyond.append(sample)
        if len(self._beyond) < IN_A_ROW:
            return None
        jump = Jump(
            samples=tuple(self._beyond), baseline=statistics.median(self._before), limit=limit
        )
        self._before.extend(self._beyond)
        self._beyond = []
        return jump

    @property
    def is_beyond(self) -> bool:
        """Whether the latest sample was beyond the limit, and perhaps a jump begins."""
        return bool(self._beyond)

    @property
    def limit(self) -> float | None:
        """What a sample must exceed; None as long as too few are known."""
        if len(self._before) < LEAST:
            return None
        middle = statistics.median(self._before)
        scatter = statistics.median(abs(each - middle) for each in self._before) * _TO_SIGMA
        return max(middle + RISE * abs(middle), middle + SCATTERS * scatter)
