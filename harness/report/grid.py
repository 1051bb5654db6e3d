"""The cells as pictures need them: axes, paths and facets.

An axis is a numeric factor; a path is baseline or accelerated; a facet is one combination of all
factors that are neither the axis nor the path, and holds one series of cells for each path.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from harness.report import quantity, words
from harness.report.schema import Breakpoint, Cell, Factor, MetricName, Quantile, Report
from harness.report.text import short

Fixed = tuple[tuple[str, Factor], ...]


@dataclass(frozen=True)
class Facet:
    """Cells that differ in the axis and the path only.

    Where the grid has several lists of features, a facet holds one of them beside the baseline.

    Attributes:
        axis: the factor along x.
        fixed: the other factors that vary over the grid, with their values here.
        paths: cells by path, each in the order of the axis.
        breakpoints: what was found along this axis here.
        features: which features the accelerated cells ran; empty where there is one path.
    """

    axis: str
    fixed: Fixed
    paths: Mapping[str, tuple[Cell, ...]]
    breakpoints: tuple[Breakpoint, ...] = field(default=())
    features: str = ""

    @property
    def title(self) -> str:
        """`cot_depth 2, frequency_penalty 0.5`, or empty."""
        return ", ".join(filter(None, (self.features, words.place(dict(self.fixed)))))

    @property
    def cells(self) -> list[Cell]:
        """All cells, path by path."""
        return [cell for cells in self.paths.values() for cell in cells]


def is_number(value: Factor) -> bool:
    """Whether a factor's value can stand on an axis."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def varying_factors(cells: Iterable[Cell]) -> dict[str, list[Factor]]:
    """Distinct values of each factor that takes more than one, in order."""
    values: dict[str, dict[Factor, None]] = {}
    for cell in cells:
        for name, value in cell.factors.items():
            values.setdefault(name, {})[value] = None
    return {name: sorted(seen, key=order) for name, seen in values.items() if len(seen) > 1}


def numeric_axes(report: Report) -> list[str]:
    """Varying numeric factors, the analysed axis first."""
    varying = varying_factors(report.cells)
    axes = [name for name, values in varying.items() if all(map(is_number, values))]
    return sorted(axes, key=lambda name: name != report.analysis.axis)


def facets(report: Report, axis: str) -> list[Facet]:
    """The grid cut along `axis`, in the order of the other factors."""
    varying = [name for name in varying_factors(report.cells) if name not in {axis, words.FACTOR}]
    groups: dict[Fixed, list[Cell]] = {}
    for cell in report.cells:
        if axis in cell.factors:
            fixed = tuple((name, cell.factors[name]) for name in varying if name in cell.factors)
            groups.setdefault(fixed, []).append(cell)
    ordered = sorted(groups, key=lambda fixed: [(name, order(value)) for name, value in fixed])
    return [
        _facet(report, axis, fixed, features, part)
        for fixed in ordered
        for features, part in _by_features(groups[fixed], axis)
    ]


def _by_features(cells: list[Cell], axis: str) -> list[tuple[Factor | None, list[Cell]]]:
    """The cells of each list of features with the baseline's; all of them where there is one."""
    values = list(dict.fromkeys(cell.factors.get(words.FACTOR) for cell in cells))
    asked = [value for value in values if value]
    if len(asked) < 2 or axis == words.FACTOR:
        return [(None, cells)]
    return [
        (value, [cell for cell in cells if cell.factors.get(words.FACTOR) in {False, value}])
        for value in asked
    ]


def baselines(cells: Iterable[Cell]) -> dict[str, Cell]:
    """By id of each accelerated cell: the baseline that differs from it in nothing else."""
    known = list(cells)
    found = {_place(cell): cell for cell in known if cell.factors.get(words.FACTOR) is False}
    return {
        cell.id: found[_place(cell)]
        for cell in known
        if cell.factors.get(words.FACTOR) and _place(cell) in found
    }


def _place(cell: Cell) -> frozenset[tuple[str, Factor]]:
    return frozenset(item for item in cell.factors.items() if item[0] != words.FACTOR)


def estimate_values(cells: Iterable[Cell], metric: MetricName, quantile: Quantile) -> list[float]:
    """Known values of a metric's quantile."""
    found = (cell.metrics.get(metric, {}).get(quantile) for cell in cells)
    return [estimate.value for estimate in found if estimate and estimate.value is not None]


def cell_label(cell: Cell, names: Iterable[str]) -> str:
    """`256, accelerated`: the values of the varying factors."""
    parts = [
        words.path_label(cell.factors)
        if name == words.FACTOR
        else short(f"{name} {quantity.factor_value(cell.factors[name])}", 60)
        for name in names
        if name in cell.factors
    ]
    return ", ".join(parts) or short(cell.id, 60)


def _facet(
    report: Report, axis: str, fixed: Fixed, features: Factor | None, cells: list[Cell]
) -> Facet:
    groups: dict[str, list[Cell]] = {path: [] for path in words.PATHS.values()}
    for cell in cells:
        groups[words.path_of(cell.factors)].append(cell)
    paths = {path: tuple(_along(axis, part)) for path, part in groups.items() if part}
    here = dict(fixed)
    ran = {cell.factors.get(words.FACTOR) for cell in cells}
    found = tuple(
        b
        for b in report.breakpoints
        if b.axis == axis
        and b.kind != "surface"  # of no one curve: the plane shows it
        and _holds(b.at, here)
        and b.at.get(words.FACTOR) in {None, *ran}
    )
    name = "" if features is None else words.path_label({words.FACTOR: features})
    return Facet(axis, fixed, paths, found, name)


def _along(axis: str, cells: list[Cell]) -> list[Cell]:
    """Cells by their place on the axis; lists of features stand as the scenario has them."""
    return cells if axis == words.FACTOR else sorted(cells, key=lambda c: order(c.factors[axis]))


def _holds(at: Mapping[str, Factor], here: Mapping[str, Factor]) -> bool:
    return all(here[name] == value for name, value in at.items() if name in here)


def order(value: Factor) -> tuple[int, float, str]:
    """Sort key of a factor's value: numbers first."""
    return (1, 0.0, value) if isinstance(value, str) else (0, float(value), "")
