"""Values of a panel in words: Grafana's unit names, as far as the boards use them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final


def _scaled(value: float, steps: tuple[tuple[float, str], ...]) -> str:
    """The value in the largest unit that is not above it; three digits."""
    size = abs(value)
    factor, unit = next((step for step in steps if size >= step[0]), steps[-1])
    return f"{value / factor:.3g}{unit}"


_DECIMAL: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1, ""))
_BINARY: Final = (
    (2.0**40, " TiB"),
    (2.0**30, " GiB"),
    (2.0**20, " MiB"),
    (1024.0, " KiB"),
    (1, " B"),
)
_TIME: Final = ((1.0, " s"), (1e-3, " ms"), (1e-6, " µs"))
_FORMATS: Final[dict[str, Callable[[float], str]]] = {
    "s": lambda v: "0 s" if v == 0 else _scaled(v, _TIME),
    "percentunit": lambda v: f"{v * 100:.3g} %",
    "reqps": lambda v: f"{v:.3g} /s",
    "bytes": lambda v: _scaled(v, _BINARY),
    "Bps": lambda v: _scaled(v, _DECIMAL) + "B/s",
    "watt": lambda v: f"{v:.4g} W",
    "hertz": lambda v: _scaled(v, _DECIMAL) + "Hz",
    "celsius": lambda v: f"{v:.3g} °C",
    "joule": lambda v: f"{v:.3g} J",
    "none": lambda v: f"{v:.3g}",
    "short": lambda v: f"{v:.0f}" if abs(v) < 1e5 and v == round(v) else _scaled(v, _DECIMAL),
}


def told(value: float, unit: str) -> str:
    """A value with its unit; an unknown unit is told as plain numbers are."""
    if not math.isfinite(value):
        return "n/a"
    return _FORMATS.get(unit, _FORMATS["none"])(value)
