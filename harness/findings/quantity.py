"""Numbers in sentences: three significant digits, a real minus, an open side said in words."""

import math
from typing import Final

MINUS: Final = "\u2212"
TIMES: Final = "\u00d7"
INFINITE: Final = "\u221e"


def decimals_of(value: float, digits: int = 3) -> int:
    """Decimals that show `digits` significant digits of `value`."""
    if value == 0.0 or not math.isfinite(value):
        return 0
    lead = math.floor(math.log10(abs(value)))
    rounded = round(value, digits - 1 - lead)
    lead = math.floor(math.log10(abs(rounded))) if rounded else lead
    return max(0, digits - 1 - lead)


def fixed(value: float, decimals: int) -> str:
    """`value` with a typographic minus; never a negative zero."""
    text = f"{value:.{decimals}f}".replace("inf", INFINITE)
    if text.endswith(INFINITE):
        return text.replace("-", MINUS)
    if not float(text):
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def number(value: float, digits: int = 3) -> str:
    """A plain number with that many significant digits."""
    return fixed(value, decimals_of(value, digits))


def measured(value: float, unit: str) -> str:
    """A number with its unit, in a size that can be read: `1.41 GHz`, `257 MiB`, `82 %`."""
    if unit == "share":
        return percent(value) if value else "0 %"
    if unit == "s" and abs(value) < 1:
        return f"{number(value * 1e3)} ms"
    if unit == "bytes":
        return f"{number(value / 2**20)} MiB"
    size, prefix = next(
        (found for found in ((1e9, "G"), (1e6, "M")) if abs(value) >= found[0]), (1.0, "")
    )
    if unit in {"Hz", "bytes/s"}:
        return f"{number(value / size)} {prefix}{unit.replace('bytes', 'B')}"
    return f"{number(value)} {unit}".strip()


def many(n: int, noun: str) -> str:
    """`1 cell`, `12,432 requests`: nouns that take an s."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


LARGEST_RATIO: Final = 100.0
"""Bounds of a ratio beyond it, or below its inverse, are as good as open."""


def told_ratio(bound: float | None) -> float | None:
    """A bound of a ratio, or None where it says nothing: open, or beyond a hundred times."""
    if bound is None or not 1 / LARGEST_RATIO < bound < LARGEST_RATIO:
        return None
    return bound


def factor_value(value: float | str) -> str:
    """A grid value as the scenario wrote it: 256, 0.5, true."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    return f"{value:.12g}".replace("-", MINUS)


def percent(share: float, digits: int = 2) -> str:
    """`82 %`; small shares keep a second digit: `0.25 %`."""
    value = share * 100
    return f"{number(value, digits if abs(value) < 100 else 3)} %"


def share_decimals(*shares: float | None) -> int:
    """Decimals for shares shown together: whole per cents unless all are small."""
    largest = max((abs(share) for share in shares if share is not None), default=0.0)
    return 0 if largest >= 0.01 else decimals_of(largest * 100, 2)


def share_phrase(value: float, low: float | None, high: float | None, of: str) -> str:
    """`82 % of the rise (75 to 88 %)`; beyond all of it no share is named but the bounds are."""
    decimals = share_decimals(value, low, high)
    centre = f"{fixed(value * 100, decimals)} % of {of}" if value <= 1 else f"all of {of} and more"
    bottom, top = ("" if b is None else fixed(b * 100, decimals) for b in (low, high))
    if bottom and top:
        return f"{centre} ({bottom} to {top} %)"
    if bottom:
        return f"{centre} (at least {bottom} %)"
    return f"{centre} (at most {top} %)" if top else centre


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
