"""`tailbreak bench generators`: what random numbers cost by source, and whether they are random."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.base.errors import ExitCode
from harness.cli.result_file import check_folder

if TYPE_CHECKING:
    from kernels.bench.timing import Interval

ALPHA = 0.001
"""How often a sound generator may be called unsound, over all of its tests together."""
FEW = 1_000
MANY = 1_000_000
FULL_DRAWS = 1 << 20
QUICK_DRAWS = 1 << 16
PUBLISHED = (
    "Published: 14.2 ms for 1,000 draws, 3.7 ms with entropy made on the chip inside a graph (the "
    "instruction named for it, RDSEED, is a processor's and runs in no GPU kernel); OS entropy is "
    "said to shift a result. What passes the same tests gives the same results."
)


def generators(
    seed: Annotated[
        int, typer.Option(help="Seed of the tested streams.", metavar="N", min=0, max=2**62)
    ] = 1,
    quick: Annotated[
        bool, typer.Option("--quick", help="Short streams and few rounds: a look, no figure.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all p values and times.", metavar="FILE")
    ] = None,
) -> None:
    """Time and test generators: OS entropy, PCG64, Philox, MT19937, and ours.

    Speed: uniform numbers by the thousand and by the million, in alternating order, with the ratio
    to OS entropy. Randomness: eleven tests each, p values adjusted by Holm: a sound generator fails
    in one of 1,000 seeds. A weak generator stands at the end to show that the tests can fail.

    Exit codes: 0, or 5 where a generator failed that should not, or the weak one passed.

    Example: tailbreak bench generators --json generators.json
    """
    from kernels.bench.battery import holm
    from kernels.bench.generators import GENERATORS

    check_folder("--json", json_file)
    n_draws = QUICK_DRAWS if quick else FULL_DRAWS
    speeds = _time(quick=quick)
    rows = []
    for each in GENERATORS:
        adjusted = holm(each.judge(seed, n_draws))
        rows.append(
            {
                "generator": each.name,
                "is_weak": each.is_weak,
                "failed": [name for name, p in adjusted.items() if p < ALPHA],
                "p_adjusted": adjusted,
                **speeds[each.name],
            }
        )
    _print(rows, n_draws, seed)
    if json_file is not None:
        told = {"schema": 1, "seed": seed, "n_draws": n_draws, "alpha": ALPHA, "rows": rows}
        json_file.write_text(json.dumps(told, indent=1) + "\n")
    if any(bool(row["failed"]) != row["is_weak"] for row in rows):
        raise typer.Exit(int(ExitCode.UNDECIDED))


def _time(*, quick: bool) -> dict[str, dict[str, Any]]:
    """Seconds a call for few and for many numbers, and how many times longer OS entropy takes."""
    from kernels.bench.bandwidth import threads
    from kernels.bench.generators import GENERATORS, OS_ENTROPY
    from kernels.bench.timing import Contender, time_alternating

    told: dict[str, dict[str, Any]] = {each.name: {} for each in GENERATORS if not each.is_weak}
    for n in (FEW, MANY // 10 if quick else MANY):
        contenders = [
            Contender(name=each.name, run=partial(each.open(1), n))
            for each in GENERATORS
            if not each.is_weak
        ]
        with threads(1):
            times = time_alternating(contenders, n_rounds=6 if quick else 20, slice_s=0.02)
        for name, timing in times.items():
            told[name][f"{n}"] = {
                "processor_s": _plain(timing.cost),
                "n_rounds": timing.n_rounds,
                "os_entropy_takes": _plain(timing.ratio_to(times[OS_ENTROPY.name])),
            }
    return {each.name: {"times": told.get(each.name, {})} for each in GENERATORS}


def _plain(interval: "Interval") -> dict[str, float]:
    return {"value": interval.value, "low": interval.low, "high": interval.high}


def _print(rows: list[dict[str, Any]], n_draws: int, seed: int) -> None:
    from kernels.bench.table import markdown

    sizes = list(rows[0]["times"])
    head = ["generator", *(f"{int(n):,}: ms" for n in sizes), *(f"{int(n):,}: x OS" for n in sizes)]
    head += ["least p", "verdict"]
    print(markdown(head, [_cells(row, sizes) for row in rows]))
    n_rounds = rows[0]["times"][sizes[0]]["n_rounds"]
    n_tests = len(rows[0]["p_adjusted"])
    print(
        f"\nprocessor time of one thread, medians over {n_rounds} alternating rounds; x OS: how "
        f"many times longer OS entropy takes [95 %].\nLeast p: smallest of {n_tests} p values "
        f"adjusted by Holm, {n_draws:,} draws, seed {seed}; below {ALPHA} it has failed.\n"
        f"{PUBLISHED}"
    )


def _cells(row: dict[str, Any], sizes: list[str]) -> list[str]:
    times, p = row["times"], row["p_adjusted"]
    failed = ", ".join(row["failed"])
    word = f"failed: {failed}" if failed else "passed"
    if row["is_weak"] != bool(failed):
        word += " (UNEXPECTED)"
    ratios = [times[n]["os_entropy_takes"] for n in sizes if n in times]
    return [
        row["generator"],
        *(f"{times[n]['processor_s']['value'] * 1e3:.3g}" if n in times else "" for n in sizes),
        *(f"{r['value']:.3g} [{r['low']:.3g}, {r['high']:.3g}]" for r in ratios),
        *([""] * (len(sizes) - len(ratios))),
        f"{min(p.values()):.2g}",
        word,
    ]
