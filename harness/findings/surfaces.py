"""Where the asked quantile breaks over two or three axes at once: a capacity that they share.

A break along one axis at each value of another may be one law of both: then one surface is told
beside the breaks of the single curves. Told is only what is found; its absence is the curves' to
tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.base.rng import generator
from harness.findings.breaks import curve_quantiles
from harness.findings.cells import number
from harness.findings.evidence import Evidence
from harness.findings.finding import (
    LEVEL,
    USABLE,
    Breakpoint,
    Cell,
    Estimate,
    Factor,
    Surface,
)
from harness.stats import surface as stats_surface

LEAST_VALUES: Final = 3
"""Of an axis that takes part: two places cannot tell a law."""
MOST_AXES: Final = 3


@dataclass(frozen=True)
class _Sheet:
    """Usable cells that differ in these axes only."""

    axes: tuple[str, ...]
    at: dict[str, Factor]
    cells: tuple[Cell, ...]


def find_surfaces(evidence: Evidence, cells: Sequence[Cell]) -> list[Breakpoint]:
    """A surface for each combination of the other factors that has one; none without two axes."""
    sheets = _sheets(evidence, cells)
    confidence = 1 - (1 - evidence.scenario.analysis.confidence) / max(1, len(sheets))
    found = (_find(evidence, sheet, confidence) for sheet in sheets)
    return [each for each in found if each is not None]


def _sheets(evidence: Evidence, cells: Sequence[Cell]) -> list[_Sheet]:
    usable = [cell for cell in cells if cell.state in USABLE]
    axes = _axes(evidence.scenario.analysis.axis, usable)
    if len(axes) < 2:
        return []
    groups: dict[tuple[tuple[str, Factor], ...], list[Cell]] = {}
    for cell in usable:
        at = tuple((name, value) for name, value in cell.factors.items() if name not in axes)
        groups.setdefault(at, []).append(cell)
    return [_Sheet(axes, dict(at), tuple(group)) for at, group in groups.items()]


def _axes(asked: str, cells: Sequence[Cell]) -> tuple[str, ...]:
    """Numeric factors above zero with places enough, the asked one first."""
    values: dict[str, set[Factor]] = {}
    for cell in cells:
        for name, value in cell.factors.items():
            values.setdefault(name, set()).add(value)
    fit = [
        name
        for name, seen in values.items()
        if len(seen) >= LEAST_VALUES and all(_is_place(value) for value in seen)
    ]
    return tuple(sorted(fit, key=lambda name: name != asked)[:MOST_AXES])


def _is_place(value: Factor) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _find(evidence: Evidence, sheet: _Sheet, confidence: float) -> Breakpoint | None:
    quantiles = curve_quantiles(evidence, sheet.cells)
    if quantiles is None:
        return None
    analysis = evidence.scenario.analysis
    found = stats_surface.find_surface(
        np.array([[float(cell.factors[name]) for name in sheet.axes] for cell in sheet.cells]),
        np.array([each.log_value for each in quantiles]),
        np.array([each.se for each in quantiles]),
        rng=generator(evidence.plan.seed, "surface", *map(str, sheet.at.items())),
        min_effect=analysis.min_jump,
        confidence=confidence,
    )
    if found.kind is None or found.form is None:
        return None
    axes = [sheet.axes[i] for i in found.axes]
    return Breakpoint(
        metric=analysis.metric, q=analysis.q, axis=axes[0], axes=axes, at=sheet.at, kind="surface",
        location=None, low=None, high=None, surface=_surface(axes, found),
        effect=number(found.effect), effect_low=number(found.effect_low),
        effect_high=number(found.effect_high), width_octaves=None, component=None, share=None,
        share_low=None, share_high=None, ranked=[],
        detectable_effect=number(found.detectable_effect),
        caveats=[caveat.text for caveat in found.caveats],
    )  # fmt: skip


def _surface(axes: list[str], found: stats_surface.Surface) -> Surface:
    assert found.kind is not None
    assert found.form is not None
    is_fixed = found.form is not stats_surface.Form.HALF_PLANE  # a free plane's are the best tried
    exponents = {
        name: Estimate(value=w, low=w if is_fixed else None, high=w if is_fixed else None)
        for name, w in zip(axes, found.weights, strict=True)
    }
    level = Estimate(value=number(found.level), low=number(found.low), high=number(found.high))
    return Surface(
        form=found.form.value, change=found.kind.value, axes=axes,
        coefficients={**exponents, LEVEL: level},
    )  # fmt: skip
