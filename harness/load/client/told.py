"""What a server tells of itself, made fit to be stored: whole counts, finite seconds, short names.

An answer is outside text: a count without end, an infinite time or half a character in a name must
cost that value and not the run.
"""

import math
from itertools import islice
from typing import Any, Final

from harness.load.client.exchange import bounded

MAX_COUNT: Final = 10_000_000
"""No answer has more tokens, and no account larger counts."""
MAX_NAMES: Final = 64


def whole(value: Any) -> int | None:
    """A count from 0 to ten million; None for anything else."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= MAX_COUNT else None


def seconds(value: Any) -> float | None:
    """A finite duration; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # a whole number beyond every float
        return None


def seconds_map(value: Any) -> dict[str, float]:
    """Durations by name; what is none is left out."""
    told = islice(value.items(), MAX_NAMES) if isinstance(value, dict) else ()
    return {bounded(name): s for name, raw in told if (s := seconds(raw)) is not None}


def names(value: Any) -> tuple[str, ...]:
    """A list of names."""
    told = value[:MAX_NAMES] if isinstance(value, list) else ()
    return tuple(bounded(str(name)) for name in told)
