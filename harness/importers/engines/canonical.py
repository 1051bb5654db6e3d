"""A server's page in canonical quantities: which server it is, and its numbers in our words.

Gauges: of series that differ in a process's label only, the largest (the others are often zero);
then counts add up and ratios take the largest. Counters and histograms add up, but for labels under
which a server counts the same thing again (`Engine.repeats`). Pure.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harness.importers.engines import ENGINES
from harness.importers.engines.engine import RANKS, Alias, Engine
from harness.importers.metrics_text import Page
from harness.metrics.catalogue import canonical
from harness.records.telemetry import Labels

_PARTS: Final = ("_bucket", "_sum", "_count")

Pairs = list[tuple[dict[str, str], float]]
"""Labels and value of the series that are folded together."""


@dataclass(frozen=True, kw_only=True)
class Translated:
    """A page in canonical quantities.

    Attributes:
        engine: the server's kind.
        values: by name and labels; what is not told is not there.
        origins: by canonical name: the server's own name, and what to know of it.
    """

    engine: Engine
    values: Mapping[tuple[str, Labels], float]
    origins: Mapping[str, str]


@dataclass
class _Found:
    """Series of one alias, by which of its names and which part."""

    series: dict[tuple[int, str], Pairs] = field(default_factory=lambda: defaultdict(list))
    written: dict[int, str] = field(default_factory=dict)
    divisor: Pairs = field(default_factory=list)


def detect_engine(page: Page) -> Engine | None:
    """The kind of server that this page is of; None where it is none that is known.

    It is the first whose quantities are there; a gateway that shows several engines' names is the
    one with the most.
    """
    names = {plain_name(name) for name, _ in page.values}
    counts = [(len(_known(engine, names)), engine) for engine in ENGINES]
    if counts[0][0]:
        return counts[0][1]
    best, engine = max(counts, key=lambda pair: pair[0])
    return engine if best else None


def translate(page: Page, engine: Engine) -> Translated:
    """The page in canonical quantities."""
    found = _collect(page, engine)
    values: dict[tuple[str, Labels], float] = {
        (canonical.ENGINE.name, (("engine", engine.name),)): 1.0
    }
    origins: dict[str, str] = {}
    for alias, series in zip(engine.aliases, found, strict=True):
        if not series.series:
            continue
        chosen = min(rank for rank, _ in series.series)
        note = f" ({alias.note})" if alias.note else ""
        for (rank, part), pairs in series.series.items():
            if rank == chosen:
                values |= _folded(alias, engine, part, pairs, series.divisor)
                origins[alias.metric.name] = series.written[rank] + note
    return Translated(engine=engine, values=values, origins=origins)


def plain_name(name: str) -> str:
    """A name with `_` for `:` and without `_total`."""
    return name.replace(":", "_").removesuffix("_total")


def _known(engine: Engine, names: Iterable[str]) -> set[str]:
    return {name for name in names if name.startswith(engine.prefixes)}


def _collect(page: Page, engine: Engine) -> list[_Found]:
    """The series of every alias."""
    found = [_Found() for _ in engine.aliases]
    wanted: dict[str, list[tuple[int, int, str]]] = {}
    for (name, labels), value in page.values.items():
        if math.isnan(value):
            continue  # no value yet
        if name not in wanted:
            wanted[name] = _matches(name, page.kind_of(name), engine)
        for place, rank, part in wanted[name]:
            alias, pairs = engine.aliases[place], dict(labels)
            if rank < 0:
                if _has(pairs, alias.over[1] if alias.over else {}):
                    found[place].divisor.append((pairs, value))
            elif _has(pairs, alias.only):
                found[place].series[rank, part].append((pairs, value))
                found[place].written[rank] = name.removesuffix(part) if part else name
    return found


def _matches(name: str, kind: str, engine: Engine) -> list[tuple[int, int, str]]:
    """Which aliases a name belongs to, by which of their names, and as which part of a histogram.

    A divisor's rank is -1. A gauge that shares a counter's name is not that counter.
    """
    plain, found = plain_name(name), []
    for place, alias in enumerate(engine.aliases):
        is_whole = alias.metric.type != "histogram" or bool(alias.part)
        parts = (alias.of_part,) if is_whole else _PARTS
        for part in parts:
            base = plain.removesuffix(part) if plain.endswith(part) else ""
            if base in alias.names and not (alias.metric.type == "counter" and kind == "gauge"):
                found.append((place, alias.names.index(base), part))
        if alias.over is not None and plain == alias.over[0]:
            found.append((place, -1, ""))
    return found


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def _folded(
    alias: Alias, engine: Engine, part: str, pairs: Pairs, divisor: Pairs
) -> dict[tuple[str, Labels], float]:
    """The canonical series of one alias, or of one part of its histogram."""
    is_gauge = alias.metric.type == "gauge"
    repeats = (*engine.repeats, *(RANKS if is_gauge else ()))
    name = alias.metric.name + (alias.part or (part if alias.metric.type == "histogram" else ""))
    groups: dict[Labels, Pairs] = defaultdict(list)
    for labels, value in pairs:
        groups[_kept(alias, labels)].append((labels, value * alias.factor))
    is_largest = alias.metric.unit == "ratio" and alias.over is None
    folded = {kept: _fold(group, repeats, is_largest=is_largest) for kept, group in groups.items()}
    if alias.over is not None:
        whole = _fold(divisor, repeats, is_largest=False) if divisor else 0.0
        folded = {kept: value / whole for kept, value in folded.items()} if whole > 0 else {}
    return {(name, kept): value for kept, value in folded.items()}


def _kept(alias: Alias, labels: Mapping[str, str]) -> Labels:
    """Labels that a canonical series keeps."""
    kept = {"le": labels["le"]} if "le" in labels and alias.metric.type == "histogram" else {}
    if alias.fixed_outcome:
        kept["outcome"] = alias.fixed_outcome
    elif alias.outcome:
        kept["outcome"] = labels.get(alias.outcome, "unknown")
    return tuple(sorted(kept.items()))


def _fold(pairs: Pairs, repeats: tuple[str, ...], *, is_largest: bool) -> float:
    """The largest of series that repeat each other; the sum, or the largest, of what is left."""
    told: dict[Labels, float] = {}
    for labels, value in pairs:
        key = tuple(sorted(pair for pair in labels.items() if pair[0] not in repeats))
        told[key] = max(told.get(key, value), value)
    return max(told.values()) if is_largest else sum(told.values())
