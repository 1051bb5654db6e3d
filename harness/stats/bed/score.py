"""Counts with their uncertainty: every share a simulation prints carries a Wilson interval."""

import math
import sys


def wilson(hits: int, n: int, z: float = 1.96) -> tuple[float, float]:
    """Interval of a share from `hits` of `n`.

    Source: Wilson, JASA 22 (1927), 209-212.
    """
    if n == 0:
        return 0.0, 1.0
    p = hits / n
    middle = (p + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def share(hits: int, n: int) -> str:
    """`12 [6, 22]` in percent."""
    if n == 0:
        return "-"
    low, high = wilson(hits, n)
    value = 100 * hits / n
    return f"{value:.0f} [{100 * low:.0f}, {100 * high:.0f}]"


def print_row(*cells: object) -> None:
    """One row of a Markdown table, at once."""
    sys.stdout.write("| " + " | ".join(str(cell) for cell in cells) + " |\n")
    sys.stdout.flush()


def print_head(*cells: str) -> None:
    """The head of a Markdown table, after an empty line."""
    sys.stdout.write("\n")
    print_row(*cells)
    print_row(*["---"] * len(cells))
