"""One number of an endpoint between two scrapes: a P99, a rate, or a gauge. Pure."""

import math
from typing import Final

from harness.base.errors import SetupError
from harness.importers.metrics_source import Answer
from harness.metrics.catalogue import canonical
from harness.metrics.window import quantile_of_buckets

Q: Final = 0.99
DEFAULTS: Final = (canonical.TTFT.name, canonical.E2E.name)
NAMES_SHOWN: Final = 12

Value = tuple[dict[str, str], float]


def choose_quantity(answer: Answer, wanted: str | None) -> str:
    """The name to watch: the one wanted, or the P99 of the first token or else of the whole answer.

    Raises:
        SetupError: the endpoint does not tell it.
    """
    known = {name.removesuffix("_bucket") for name in (key[0] for key in _values(answer))}
    for name in (wanted,) if wanted is not None else DEFAULTS:
        if name in known:
            return name
    shown = ", ".join(sorted(known)[:NAMES_SHOWN])
    what = wanted if wanted is not None else "first tokens or whole answers in a histogram"
    raise SetupError(f"the endpoint does not tell {what}; it tells {shown}, ...: name one of them")


def sample(name: str, before: Answer, now: Answer) -> float | None:
    """Of a histogram the P99 of what was counted in between, of a counter its rate, else the value.

    None where nothing was counted, or the series is not there. A P99 beyond the last bound is that
    bound: at least so much.
    """
    buckets = _named(now, f"{name}_bucket")
    if buckets:
        return _tail(_growth(_named(before, f"{name}_bucket"), buckets))
    values = _named(now, name)
    if not values:
        return None
    if now.kind_of(name) == "counter":
        seconds = (now.time_unix_ns - before.time_unix_ns) / 1e9
        grown = sum(value for _, value in _growth(_named(before, name), values))
        return grown / seconds if seconds > 0 else None
    return max(value for _, value in values)


def _values(answer: Answer) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    translated = answer.translated.values if answer.translated is not None else {}
    return {**answer.page.values, **translated}


def _named(answer: Answer, name: str) -> list[Value]:
    return [
        (dict(labels), value)
        for (each, labels), value in _values(answer).items()
        if each == name and not math.isnan(value)
    ]


def _growth(before: list[Value], now: list[Value]) -> list[Value]:
    """How much each series grew; one that went back began again at zero."""
    known = {tuple(sorted(labels.items())): value for labels, value in before}
    grown = []
    for labels, value in now:
        was = known.get(tuple(sorted(labels.items())), 0.0)
        grown.append((labels, value - was if value >= was else value))
    return grown


def _tail(buckets: list[Value]) -> float | None:
    counts: dict[float, float] = {}
    for labels, value in buckets:
        bound = float(labels["le"])
        counts[bound] = counts.get(bound, 0.0) + value
    return quantile_of_buckets(counts, Q)
