"""Builders of telemetry: series written point by point, as a scrape would have left them."""

from harness.metrics.window import Telemetry
from harness.records.telemetry import Labels, Reading, to_readings

S = 1_000_000_000
Points = list[tuple[float, float | None]]


def rows(
    name: str, points: Points, *, source: str = "a", kind: str = "gauge", **labels: str
) -> list[Reading]:
    """One series: times in seconds and its values from then on."""
    pairs: Labels = tuple(sorted(labels.items()))
    return [Reading(int(t * S), source, name, pairs, value, kind) for t, value in points]


def scrapes(*times: float, source: str = "a", failed: tuple[float, ...] = ()) -> list[Reading]:
    """When a source was asked, and when it did not answer."""
    return rows("up", [(t, float(t not in failed)) for t in times], source=source)


def telemetry(*parts: list[Reading]) -> Telemetry:
    """All of it together."""
    return Telemetry(to_readings([row for part in parts for row in part]))
