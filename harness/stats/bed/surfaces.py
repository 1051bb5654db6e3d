"""Breaks over two axes: how often one is claimed where there is none, and found as what it is.

`python -m harness.stats.bed.surfaces [REPLICATES]` prints the tables in docs/bench-stats.md (100
replicates unless said). Cells are a 7 x 7 grid, or 40 of the 256 of a 16 x 16 one; the axes span
four and six octaves, errors of the log quantile are as given. `a` and `b` begin at 1.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from harness.base.rng import generator
from harness.stats.bed.marginals import Array
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.bed.task import SEED
from harness.stats.surface import Form, Surface, SurfaceKind, find_surface

Law = Callable[[Array, Array], Array]
SMOOTH: dict[str, Law] = {
    "a + b": lambda a, b: 1 + 0.3 * a + 0.05 * b,
    "a x b": lambda a, b: 1 + 0.02 * a * b / 8,
    "quadratic": lambda a, b: 1 + 0.02 * a + 0.002 * b**2 + 0.05 * a**2,
    "powers": lambda a, b: a**0.7 * b**0.4,
    "logarithms": lambda a, b: 1 + np.log(a) + 2 * np.log(b),
    "queue of a x b": lambda a, b: 1 + 2 * (a * b / 1126) / (1 - a * b / 1126),
    "USL x line": lambda a, b: (1 + 0.05 * (a - 1) + 0.002 * a * (a - 1)) * (1 + 0.01 * b),
    "saturating": lambda a, b: 1 + 4 * (1 - np.exp(-a / 6)) * (1 + b / 20),
    "rooflines": lambda a, b: np.hypot(1, a / 5) * np.hypot(1, b / 30),
}
PLANTED: dict[str, tuple[Form, Array]] = {
    "axis": (Form.AXIS, np.array([1.0, 0.0])),
    "product": (Form.PRODUCT, np.array([1.0, 1.0])),
    "a x b ^ 0.5": (Form.HALF_PLANE, np.array([1.0, 0.5])),
}
DESIGNS = {"7 x 7": (7, 49), "40 of 16 x 16": (16, 40)}
ERRORS = (0.02, 0.05)
SLACK = 1 + 1e-9


@dataclass
class Found:
    """What came of one planted break."""

    n: int = 0
    right: int = 0
    held: int = 0


def cells(side: int, n: int, rng: np.random.Generator) -> Array:
    """Places of n cells of a square grid, shape (n, 2)."""
    a, b = np.meshgrid(np.geomspace(1, 16, side), np.geomspace(1, 64, side), indexing="ij")
    x = np.column_stack([a.ravel(), b.ravel()])
    return x[np.sort(rng.permutation(len(x))[:n])]


def search(x: Array, y: Array, se: float, rng: np.random.Generator) -> Surface:
    """What is found in these cells, their errors drawn."""
    return find_surface(x, y + se * rng.standard_normal(len(y)), np.full(len(y), se), rng=rng)


def false_alarms(law: str, design: str, se: float, replicates: int) -> int:
    """Jumps claimed on a smooth law."""
    n_claimed = 0
    for i in range(replicates):
        rng = generator(SEED, "smooth surface", law, design, str(se), i)
        x = cells(*DESIGNS[design], rng)
        found = search(x, np.log(SMOOTH[law](x[:, 0], x[:, 1])), se, rng)
        n_claimed += found.kind is SurfaceKind.JUMP
    return n_claimed


def planted(name: str, size: float, design: str, se: float, replicates: int) -> Found:
    """Breaks of this form and size, at a level drawn from the middle half of the grid."""
    form, normal = PLANTED[name]
    result = Found()
    for i in range(replicates):
        rng = generator(SEED, "surface", name, str(size), design, str(se), i)
        x = cells(*DESIGNS[design], rng)
        along = np.log2(x) @ normal
        level = rng.uniform(*np.quantile(np.unique(along.round(9)), [0.25, 0.75]))
        y = np.log(SMOOTH["a + b"](x[:, 0], x[:, 1])) + np.log1p(size) * (along > level)
        found = search(x, y, se, rng)
        result.n += found.kind is SurfaceKind.JUMP
        if found.kind is SurfaceKind.JUMP and found.form is form:
            result.right += 1
            assert found.low is not None
            assert found.high is not None
            result.held += found.low / SLACK <= 2**level <= found.high * SLACK
    return result


def main(replicates: int = 100) -> None:
    """Print both tables."""
    columns = [(design, se) for design in DESIGNS for se in ERRORS]
    print_head("smooth law", *(f"{design}, {se:.0%}" for design, se in columns))
    for law in SMOOTH:
        counts = [false_alarms(law, design, se, replicates) for design, se in columns]
        print_row(law, *(share(n, replicates) for n in counts))
    print_head("planted", "cells", "error", "found, %", "as that form, %", "level held, %")
    for name in PLANTED:
        for size in (0.2, 0.4, 1.0):
            for design, se in columns:
                found = planted(name, size, design, se, replicates)
                is_free = PLANTED[name][0] is Form.HALF_PLANE
                held = "-" if is_free else share(found.held, found.right)
                print_row(
                    f"{name} {size:+.0%}", design, f"{se:.0%}", share(found.n, replicates),
                    share(found.right, replicates), held,
                )  # fmt: skip


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
