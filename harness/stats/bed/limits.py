"""What standard errors stated too small cost, and whether the detectable jump is detected.

`python -m harness.stats.bed.limits [REPLICATES]` prints the tables in docs/bench-stats.md (5
replicates a law unless said). Cells are spaced evenly over seven octaves.
"""

import sys

import numpy as np

from harness.base.rng import generator
from harness.stats.bed.breaks import BREAKS, CELLS, SEED, search
from harness.stats.bed.laws import LAWS, grid
from harness.stats.bed.score import print_head, print_row, share
from harness.stats.breakpoints import BreakKind
from harness.stats.candidates import step_at

STATED = 0.04
NOISE = 0.02
TIMES = (1.5, 2.0, 3.0)
JUMPS = {BreakKind.JUMP, BreakKind.BOTH, BreakKind.STAIRCASE}


def understated(times: float, n: int, replicates: int) -> int:
    """Searches of the smooth laws, noise `times` the stated 4 %, that claim a break."""
    rng = generator(SEED, "understated", str(times), n)
    x = grid(n)
    return sum(
        search(x, np.log(law(x / x[0])), STATED * times, rng, STATED).kind in BREAKS
        for law in LAWS.values()
        for _ in range(replicates)
    )


def detected(law: str, n: int, replicates: int) -> tuple[int, int]:
    """Jumps of the detectable size found again on new noise, and how many could be planted.

    The size is the one a search of the smooth curve reports; the gap is random, three cells or more
    from either end. A search that reports none plants none.
    """
    rng = generator(SEED, "detected", law, n)
    x = grid(n)
    z = np.log2(x)
    curve = np.log(LAWS[law](x / x[0]))
    found = planted = 0
    for _ in range(replicates):
        size = search(x, curve, NOISE, rng).detectable_effect
        if size is None:
            continue
        k = int(rng.integers(2, n - 3))
        jump = np.log1p(size) * step_at(z, (z[k] + z[k + 1]) / 2)
        planted += 1
        found += search(x, curve + jump, NOISE, rng).kind in JUMPS
    return found, planted


def main(replicates: int = 5) -> None:
    """Print both tables."""
    print_head("true error over the stated one", *(f"{n} cells" for n in CELLS))
    for times in TIMES:
        counts = [understated(times, n, replicates) for n in CELLS]
        print_row(f"{times:g}", *(share(c, replicates * len(LAWS)) for c in counts))
    print_head("smooth law", *(f"{n} cells" for n in CELLS))
    for law in LAWS:
        pairs = [detected(law, n, 4 * replicates) for n in CELLS]
        print_row(law, *(share(found, planted) for found, planted in pairs))


if __name__ == "__main__":
    main(*(int(a) for a in sys.argv[1:2]))
