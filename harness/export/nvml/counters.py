"""Counters that never go back: an interval in which NVML's did is dropped, and counted.

A GPU's reset or a wrap makes its counter smaller. Handed on as it is, Prometheus would take the new
value for growth; here the total stays where it was and goes on from the new value.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass
class _Total:
    raw: float
    total: float


class Counters:
    """Totals by key; the first value of a key is its beginning."""

    def __init__(self) -> None:
        self._totals: dict[Hashable, _Total] = {}
        self.resets: Counter[tuple[str, str]] = Counter()

    def advance(self, uuid: str, name: str, labels: tuple[str, ...], raw: float) -> float:
        """The total after this raw value."""
        known = self._totals.setdefault((uuid, name, labels), _Total(raw, raw))
        if raw < known.raw:
            self.resets[uuid, name] += 1
        else:
            known.total += raw - known.raw
        known.raw = raw
        return known.total
