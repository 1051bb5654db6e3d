"""Numbers as people read them: three significant digits, a unit, an interval.

`129 ms (121-140)` with a real dash; an open bound is a question mark or an at-least sign and never
an invented number; what is undefined has no text here (`None`) and the page shows a dash with the
reason. Nothing here knows a report.
"""

import math
from dataclasses import dataclass
from typing import Final

DASH: Final = "\u2013"
MINUS: Final = "\u2212"
TIMES: Final = "\u00d7"
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


def decimals_of(value: float, digits: int = 3) -> int:
    """Decimals that show `digits` significant digits of `value`."""
    if value == 0.0:
        return 0
    lead = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - lead)
    lead = math.floor(math.log10(abs(rounded))) if rounded else lead
    return max(0, digits - 1 - lead)


def fixed(value: float, decimals: int) -> str:
    """`value` with a typographic minus; never a negative zero."""
    text = f"{value:.{decimals}f}"
    if not float(text):
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def number(value: float, digits: int = 3) -> str:
    """A plain number with that many significant digits."""
    return fixed(value, decimals_of(value, digits))


def factor_value(value: float | str) -> str:
    """A grid value as the scenario wrote it: 256, 0.5, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return f"{value:.12g}".replace("-", MINUS)


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


def ratio_interval(value: float | None, low: float | None, high: float | None) -> str | None:
    """`0.45 (0.41-0.50)`; None where nothing is known."""
    if value is None:
        return None
    decimals = 2 if 0.1 <= value < 10 else decimals_of(value, 2)
    return f"{fixed(value, decimals)} ({_range(low, high, decimals)})"


def percent(share: float, digits: int = 2) -> str:
    """`82 %`; small shares keep a second digit: `0.25 %`."""
    value = share * 100
    return f"{number(value, digits if abs(value) < 100 else 3)} %"


def share_interval(value: float | None, low: float | None, high: float | None) -> str | None:
    """`82 % (75-88)`; None where nothing is known."""
    if value is None:
        return None
    if low is None and high is None:
        return percent(value)
    known = [abs(v) for v in (value, low, high) if v is not None]
    decimals = 0 if max(known) >= 0.01 else decimals_of(max(known) * 100, 2)
    bounds = _range(_scaled(low, 100), _scaled(high, 100), decimals)
    return f"{fixed(value * 100, decimals)} % ({bounds})"


def change(effect: float) -> str:
    """A relative change with its sign: `+148 %`."""
    value = effect * 100
    text = number(value, 2 if abs(value) < 100 else 3)
    return f"{'+' if value > 0 else ''}{text} %"


def change_interval(value: float, low: float | None, high: float | None) -> str:
    """`+148 % (+120 to +171 %)`; an open side is said in words."""
    text = change(value)
    if low is not None and high is not None:
        return f"{text} ({change(low).removesuffix(' %')} to {change(high)})"
    if low is not None:
        return f"{text} (at least {change(low)})"
    return f"{text} (at most {change(high)})" if high is not None else text


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
