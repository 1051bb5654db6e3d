"""What changed between a normal time and a fault, over everything that was scraped.

Both times are cut into slices of one length; a quantity is a rate, a level or a quantile in each
slice. It has changed where the ranks of its slices say so and many tests are held in check; changes
are ranked by their size in units of normal noise, not by percentages. What is only there in one of
the two is said apart: absent is not zero.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.metrics.catalogue.gpu import DCGM_METRICS
from harness.metrics.catalogue.server import REQUESTS
from harness.metrics.window import Telemetry, Window, quantile_of_buckets
from harness.stats.shift import Shift, held_in_check, shift

N_SLICES: Final = 12
MOST_SLICES: Final = 48
SHORTEST_S: Final = 1.0
QUANTILES: Final = (0.5, 0.99)
MAX_QUANTITIES: Final = 2000
LEAST_EFFECT: Final = 1.0
"""In units of normal noise: less is within it, however surely it differs."""
_SKIPPED: Final = ("_sum", "_created")
_DCGM_COUNTERS: Final = frozenset(each.name for each in DCGM_METRICS if each.type == "counter")
"""Exposed without a type, since their names do not end in `_total`."""

Floats = NDArray[np.float64]
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One quantity in two times.

    Attributes:
        name: the metric.
        labels: of its series, without `le`.
        what: `rate` a second, `level`, `p50` or `p99`.
        normal: median of its slices in the normal time; None where it was not there.
        fault: the same in the fault.
        effect: the difference in units of normal noise; None where one side is missing.
        has_changed: whether the test stands among all that were made, and the effect is beyond
            the noise.
    """

    name: str
    labels: Labels
    what: str
    normal: float | None
    fault: float | None
    effect: float | None
    has_changed: bool

    @property
    def is_one_sided(self) -> bool:
        """Whether it was there in one of the two times only."""
        return (self.normal is None) != (self.fault is None)


@dataclass(frozen=True, kw_only=True)
class Changes:
    """All that was compared.

    Attributes:
        ranked: the largest effect first; then what is in one time only.
        n_compared: quantities with values in both.
        slice_s: length of a slice.
        n_left_out: quantities beyond the limit, not looked at.
    """

    ranked: tuple[Change, ...]
    n_compared: int
    slice_s: float
    n_left_out: int = 0

    @property
    def changed(self) -> tuple[Change, ...]:
        """Those whose test stands."""
        return tuple(each for each in self.ranked if each.has_changed)


def find_changes(normal: Window, fault: Window) -> Changes:
    """Compare every quantity of the telemetry in these two windows."""
    telemetry = fault.telemetry
    slice_s = _slice_s(telemetry, normal, fault)
    before, after = _edges(normal, slice_s), _edges(fault, slice_s)
    quantities = list(_distinct(_quantities(telemetry, before, after)))
    kept, left_out = quantities[:MAX_QUANTITIES], len(quantities[MAX_QUANTITIES:])
    tests = [shift(a, b) for _, _, _, a, b in kept]
    stands = iter(held_in_check([test.p for test in tests if test is not None]))
    found = [
        _change(name, labels, what, (a, b), test, has_changed=test is not None and next(stands))
        for (name, labels, what, a, b), test in zip(kept, tests, strict=True)
    ]
    told = [each for each in found if each.effect is not None or each.is_one_sided]
    return Changes(
        ranked=tuple(sorted(told, key=_rank)),
        n_compared=sum(test is not None for test in tests),
        slice_s=slice_s,
        n_left_out=left_out,
    )


def _rank(change: Change) -> tuple[bool, bool, float, str, Labels, str]:
    size = -abs(change.effect) if change.effect is not None else 0.0
    return (
        not change.has_changed, change.effect is None, size, change.name, change.labels,
        change.what,
    )  # fmt: skip


def _change(
    name: str,
    labels: Labels,
    what: str,
    values: tuple[Floats, Floats],
    test: Shift | None,
    *,
    has_changed: bool,
) -> Change:
    normal, fault = (float(np.nanmedian(v)) if np.isfinite(v).any() else None for v in values)
    effect = test.effect if test is not None else None
    return Change(
        name=name, labels=labels, what=what, normal=normal, fault=fault, effect=effect,
        has_changed=has_changed and effect is not None and abs(effect) >= LEAST_EFFECT,
    )  # fmt: skip


def _slice_s(telemetry: Telemetry, normal: Window, fault: Window) -> float:
    """A twelfth of the shorter time, and at least two scrapes of the slowest source."""
    steps = [
        float(np.median(np.diff([time for time, _ in telemetry.up(source)])))
        for source in telemetry.sources
        if len(telemetry.up(source)) > 1
    ]
    shorter = min(window.end_s - window.start_s for window in (normal, fault))
    return max(shorter / N_SLICES, 2 * max(steps, default=0.0), SHORTEST_S)


def _edges(window: Window, slice_s: float) -> Floats:
    n = max(1, min(MOST_SLICES, int((window.end_s - window.start_s) / slice_s + 1e-9)))
    return window.end_s - slice_s * np.arange(n, -1, -1.0)


def _distinct(
    quantities: Iterator[tuple[str, Labels, str, Floats, Floats]],
) -> Iterator[tuple[str, Labels, str, Floats, Floats]]:
    """The first of quantities that are equal throughout: one fact is tested and told once."""
    seen: set[bytes] = set()
    for each in quantities:
        values = each[3].tobytes() + each[4].tobytes()
        if values not in seen:
            seen.add(values)
            yield each


def _quantities(
    telemetry: Telemetry, before: Floats, after: Floats
) -> Iterator[tuple[str, Labels, str, Floats, Floats]]:
    """Name, labels and what, with the values of the slices on both sides."""
    names = set(_own_names(telemetry.names))
    for name in sorted(names, key=lambda name: (name.endswith("_bucket"), name)):
        base = name.removesuffix("_bucket")
        if base != name:
            yield from _histograms(telemetry, base, before, after)
        elif not name.endswith(_SKIPPED) and not _is_part(name, names):
            yield from _plain(telemetry, name, before, after)


def _own_names(names: Sequence[str]) -> list[str]:
    """Names of one vocabulary: the same quantity under a second name is no second finding."""
    twice = ["llm:"] + (["vllm:"] if REQUESTS.name in names else [])
    return [name for name in names if not name.startswith(tuple(twice))]


def _is_part(name: str, names: set[str]) -> bool:
    """Whether this is the count of a histogram, which is told with it."""
    return name.endswith("_count") and f"{name.removesuffix('_count')}_bucket" in names


def _plain(
    telemetry: Telemetry, name: str, before: Floats, after: Floats
) -> Iterator[tuple[str, Labels, str, Floats, Floats]]:
    is_counter = _is_counter(telemetry, name)
    for each in telemetry.series(name):
        slices = each.increases if is_counter else each.means
        a, b = slices(before), slices(after)
        if is_counter:
            a, b = a / np.diff(before), b / np.diff(after)
        if np.isfinite(a).any() or np.isfinite(b).any():
            labels = tuple(sorted(each.labels.items()))
            yield name, labels, "rate" if is_counter else "level", a, b


def _is_counter(telemetry: Telemetry, name: str) -> bool:
    """Whether a name only ever grows, also where its source did not say so."""
    kind = telemetry.kind(name)
    is_count = name.endswith("_count") and kind in {"summary", "histogram"}
    return kind == "counter" or is_count or name.endswith("_total") or name in _DCGM_COUNTERS


def _histograms(
    telemetry: Telemetry, base: str, before: Floats, after: Floats
) -> Iterator[tuple[str, Labels, str, Floats, Floats]]:
    groups: dict[Labels, dict[float, tuple[Floats, Floats]]] = {}
    for each in telemetry.series(f"{base}_bucket"):
        labels = tuple(sorted((k, v) for k, v in each.labels.items() if k != "le"))
        try:
            bound = float(each.labels.get("le", ""))
        except ValueError:
            continue
        groups.setdefault(labels, {})[bound] = (each.increases(before), each.increases(after))
    for labels, buckets in groups.items():
        counts = buckets.get(math.inf)
        if counts is None:
            continue
        yield base, labels, "rate", counts[0] / np.diff(before), counts[1] / np.diff(after)
        for q in QUANTILES:
            a, b = (_quantiles(buckets, side, q) for side in (0, 1))
            if np.isfinite(a).any() or np.isfinite(b).any():
                yield base, labels, f"p{q * 100:g}", a, b


def _quantiles(buckets: Mapping[float, tuple[Floats, Floats]], side: int, q: float) -> Floats:
    n = len(next(iter(buckets.values()))[side])
    return np.array([_quantile(buckets, side, place, q) for place in range(n)])


def _quantile(
    buckets: Mapping[float, tuple[Floats, Floats]], side: int, place: int, q: float
) -> float:
    counts = {bound: float(values[side][place]) for bound, values in buckets.items()}
    known: Sequence[float] = list(counts.values())
    value = quantile_of_buckets(counts, q) if not np.isnan(known).any() else None
    return math.nan if value is None else value
