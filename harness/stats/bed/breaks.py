"""How often a break is claimed where there is none, and found where there is one.

`python -m harness.stats.bed.breaks [REPLICATES] [CELLS ...]` prints the tables in
docs/bench-stats.md; without arguments 25 replicates on 7, 9, 12 and 16 cells. Cells are spaced
evenly over seven octaves; noise of the log quantile has the coefficient of variation shown and is
known to the search.
"""

import sys
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.base.rng import generator
from harness.stats.bed.laws import FURTHER_LAWS, LAWS, STRUCTURES, grid
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.breakpoints import BreakKind, Breakpoint, find_breakpoint
from harness.stats.candidates import hinge_at, step_at
from harness.stats.cell_quantile import cell_quantiles

Array = NDArray[np.float64]
SEED = 20261130
DRAWS = 199
CELLS = (7, 9, 12, 16)
NOISE = (0.02, 0.05)
PLANTED = (("jump", 0.2), ("jump", 0.25), ("jump", 0.4), ("jump", 1.0), ("kink", 0.6))
POWER_LAWS = ("a+bL+cL^2", "power 1.15")
BREAKS = {BreakKind.JUMP, BreakKind.KINK, BreakKind.BOTH, BreakKind.STAIRCASE}


@dataclass
class Tally:
    """Outcomes of one planted break."""

    n: int = 0
    found: int = 0
    placed: int = 0
    held: int = 0
    sized: int = 0


def false_alarms(law: str, n: int, noise: float, replicates: int) -> int:
    """Searches of a smooth law that claim a break (jump, kink, both or staircase)."""
    rng = generator(SEED, "alarm", law, n, str(noise))
    x = grid(n)
    curve = np.log({**LAWS, **FURTHER_LAWS}[law](x / x[0]))
    return sum(search(x, curve, noise, rng).kind in BREAKS for _ in range(replicates))


def planted(kind: str, size: float, n: int, noise: float, replicates: int) -> Tally:
    """Searches of two smooth laws with a break in a random gap, at least two cells on each side."""
    rng = generator(SEED, "planted", kind, str(size), n, str(noise))
    x = grid(n)
    z = np.log2(x)
    tally = Tally()
    for i in range(replicates):
        k = int(rng.integers(1, n - 2))
        middle = (z[k] + z[k + 1]) / 2
        added = (
            np.log1p(size) * step_at(z, middle) if kind == "jump" else size * hinge_at(z, middle)
        )
        curve = np.log(LAWS[POWER_LAWS[i % 2]](x / x[0])) + added
        found = search(x, curve, noise, rng)
        tally.n += 1
        if found.kind not in BREAKS or found.below is None or found.low is None:
            continue
        tally.found += 1
        if found.kind.value not in {kind, "both"} or abs(found.below - k) > 1:
            continue
        tally.placed += 1
        tally.held += bool(found.low <= 2**middle <= (found.high or 0))
        tally.sized += bool((found.effect_low or 0) <= size <= (found.effect_high or 0))
    return tally


def from_requests(
    jump: float, n: int, replicates: int, segment_sd: float = 0.03
) -> tuple[Tally, float]:
    """The whole path: 4 segments of 128 log-normal requests a cell, pooled P99, search.

    Also the median standard error of the cells.
    """
    rng = generator(SEED, "requests", str(jump), n)
    x = grid(n)
    curve = np.log(LAWS["a+bL+cL^2"](x / x[0]))
    tally = Tally()
    errors: list[float] = []
    for _ in range(replicates):
        k = int(rng.integers(1, n - 2))
        level = curve + np.log1p(jump) * (np.arange(n) > k)
        moved = segment_sd * rng.standard_normal((n, 4, 1))
        values = np.exp(level[:, None, None] + moved + 0.35 * rng.standard_normal((n, 4, 128)))
        cells = cell_quantiles([list(cell) for cell in values], 0.99)
        errors += [cell.se for cell in cells]
        found = find_breakpoint(
            x,
            [cell.log_value for cell in cells],
            [cell.se for cell in cells],
            open_upper=[cell.open for cell in cells],
            n_bootstrap=DRAWS,
            rng=rng,
        )
        tally.n += 1
        tally.found += found.kind in BREAKS
        tally.placed += (
            found.kind in BREAKS and found.below is not None and abs(found.below - k) <= 1
        )
    return tally, float(np.median(errors))


def search(
    x: Array, curve: Array, noise: float, rng: np.random.Generator, stated: float | None = None
) -> Breakpoint:
    """A search of the curve with that noise, told its true size or the `stated` one."""
    y = curve + noise * rng.standard_normal(x.size)
    se = np.full(x.size, noise if stated is None else stated)
    return find_breakpoint(x, y, se, n_bootstrap=DRAWS, rng=rng)


def print_alarms(replicates: int, cells: tuple[int, ...]) -> None:
    """Share of smooth curves called broken, by law, grid and noise."""
    print_head("smooth law", *(f"{n} cells, {noise:.0%}" for n in cells for noise in NOISE))
    for law in (*LAWS, *FURTHER_LAWS):
        counts = [false_alarms(law, n, noise, replicates) for n in cells for noise in NOISE]
        name = f"{law} (further)" if law in FURTHER_LAWS else law
        print_row(name, *(share(count, replicates) for count in counts))


def print_power(replicates: int, cells: tuple[int, ...]) -> None:
    """Share of planted breaks found, placed within one cell, and covered by their intervals."""
    print_head(
        "planted", "cells", "noise", "found", "right kind, within 1 cell", "place held", "size held"
    )
    for kind, size in PLANTED:
        name = f"jump {size:.0%}" if kind == "jump" else f"kink {size}/octave"
        for n in cells:
            for noise in NOISE:
                t = planted(kind, size, n, noise, replicates)
                shares = (share(t.found, t.n), share(t.placed, t.n))
                held = (share(t.held, t.placed), share(t.sized, t.placed))
                print_row(name, n, f"{noise:.0%}", *shares, *held)


def print_requests(replicates: int, cells: tuple[int, ...]) -> None:
    """The whole path from requests, with and without a jump."""
    columns = ("median error of a cell", "break claimed", "within 1 cell")
    print_head("4 x 128 requests a cell", "cells", *columns)
    for jump in (0.0, 0.4, 1.0):
        for n in cells:
            t, error = from_requests(jump, n, replicates)
            placed = share(t.placed, t.n) if jump else "-"
            print_row(f"jump {jump:.0%}", n, f"{error:.1%}", share(t.found, t.n), placed)


def print_kinds(replicates: int, cells: tuple[int, ...]) -> None:
    """What is said of curves that are neither smooth nor one break, at 3 % noise."""
    print_head("structure", "cells", *(kind.value for kind in BreakKind), "two or more breaks")
    for name, law in STRUCTURES.items():
        for n in cells:
            rng = generator(SEED, "structure", name, n)
            x = grid(n)
            found = [search(x, law(x / x[0]), 0.03, rng) for _ in range(replicates)]
            counts = [sum(f.kind is kind for f in found) for kind in BreakKind]
            print_row(name, n, *counts, sum(bool(f.others) for f in found))


def main(replicates: int = 25, *cells: int) -> None:
    """Print all four tables."""
    for table in (print_alarms, print_power, print_requests, print_kinds):
        table(replicates, cells or CELLS)


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:]))
