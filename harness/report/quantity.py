"""Numbers as people read them: three significant digits, a unit, an interval.

`129 ms (121-140)` with a real dash; an open bound is a question mark or an at-least sign and never
an invented number; what is undefined has no text here (`None`) and the page shows a dash with the
reason. Nothing here knows a report.
"""

from dataclasses import dataclass
from typing import Final

from harness.findings.quantity import (
    MINUS,
    change,
    change_interval,
    decimals_of,
    factor_value,
    fixed,
    many,
    number,
    percent,
    share_decimals,
    told_ratio,
)

__all__ = [
    "AT_LEAST",
    "AT_MOST",
    "DASH",
    "MICRO",
    "MILLI",
    "MINUS",
    "OPEN",
    "SECOND",
    "Unit",
    "change",
    "change_interval",
    "count",
    "decimals_of",
    "duration",
    "duration_and_bounds",
    "duration_interval",
    "factor_value",
    "fixed",
    "long_duration",
    "many",
    "number",
    "percent",
    "ratio_interval",
    "share_interval",
    "shared_unit",
    "told_ratio",
    "unit_of",
]

DASH: Final = "\u2013"
AT_LEAST: Final = "\u2265"
AT_MOST: Final = "\u2264"
OPEN: Final = "?"


@dataclass(frozen=True)
class Unit:
    """A unit of time, with how many of it make a second."""

    name: str
    per_second: float


MICRO: Final = Unit("\u00b5s", 1e6)
MILLI: Final = Unit("ms", 1e3)
SECOND: Final = Unit("s", 1.0)


def unit_of(seconds: float) -> Unit:
    """The unit in which one duration reads well."""
    size = abs(seconds)
    if size >= 1.0:
        return SECOND
    return MILLI if size >= 1e-3 or size == 0.0 else MICRO


def shared_unit(largest_s: float) -> Unit:
    """The unit of an axis or a column whose largest value is given."""
    if largest_s >= 10.0:
        return SECOND
    return MILLI if largest_s >= 1e-3 or largest_s == 0.0 else MICRO


def duration(seconds: float, unit: Unit | None = None) -> str:
    """A duration such as `129 ms`."""
    chosen = unit or unit_of(seconds)
    return f"{number(seconds * chosen.per_second)} {chosen.name}"


def long_duration(seconds: float) -> str:
    """A run's length: `45 s`, `3 min 12 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return duration(seconds)
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


def duration_interval(
    value: float | None, low: float | None, high: float | None, unit: Unit | None = None
) -> str | None:
    """`129 ms (121-140)`, `118 ms (104-?)` or `>= 118 ms`; None where nothing is known."""
    known = value if value is not None else low if low is not None else high
    if known is None:
        return None
    chosen = unit or unit_of(known)
    scale = chosen.per_second
    if value is None:
        if low is not None and high is not None:
            return f"{_bounds(low * scale, high * scale, known * scale)} {chosen.name}"
        sign = AT_LEAST if low is not None else AT_MOST
        return f"{sign} {number(known * scale)} {chosen.name}"
    bounds = _bounds(_scaled(low, scale), _scaled(high, scale), value * scale)
    return f"{number(value * scale)} {chosen.name} ({bounds})"


def duration_and_bounds(
    value: float | None, low: float | None, high: float | None, unit: Unit
) -> tuple[str | None, str]:
    """`duration_interval` in two, without its unit: `129` and `(121-140)`, empty if unknown."""
    text = duration_interval(value, low, high, unit)
    if text is None:
        return None, ""
    shown, bracket, bounds = text.replace(f" {unit.name}", "").partition(" (")
    return shown, f"({bounds}" if bracket else ""


def ratio_interval(value: float | None, low: float | None, high: float | None) -> str | None:
    """`0.45 (0.41-0.50)`; None where nothing is known."""
    if value is None:
        return None
    decimals = 2 if 0.1 <= value < 10 else decimals_of(value, 2)
    return f"{fixed(value, decimals)} ({_range(told_ratio(low), told_ratio(high), decimals)})"


def share_interval(value: float | None, low: float | None, high: float | None) -> str | None:
    """`82 % (75-88)`; None where nothing is known."""
    if value is None:
        return None
    if low is None and high is None:
        return percent(value)
    decimals = share_decimals(value, low, high)
    bounds = _range(_scaled(low, 100), _scaled(high, 100), decimals)
    return f"{fixed(value * 100, decimals)} % ({bounds})"


def count(value: float) -> str:
    """A count with thousands apart: `7,168`."""
    return f"{round(value):,}"


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale


def _range(low: float | None, high: float | None, decimals: int) -> str:
    ends = [OPEN if end is None else fixed(end, decimals) for end in (low, high)]
    return (" to " if MINUS in "".join(ends) else DASH).join(ends)


def _bounds(low: float | None, high: float | None, beside: float, digits: int = 3) -> str:
    return f"{_bound(low, beside, digits)}{DASH}{_bound(high, beside, digits)}"


def _bound(value: float | None, beside: float, digits: int) -> str:
    if value is None:
        return OPEN
    decimals = decimals_of(beside, digits)
    if value and abs(value) < 0.5 * 10.0**-decimals:
        return number(value, 1)
    return fixed(value, decimals)
