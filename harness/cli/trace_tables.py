"""What profilers' files say, on the terminal."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.findings.device_work import Copies, DeviceWork
    from harness.findings.kernel_stalls import KernelRow
    from harness.findings.ranks import RankTable
    from harness.findings.symptoms import Symptom


HEADS: Final = ("rank", "last", "p", "late", "most", "caused", "saves", "wait", "hidden", "share")
MEANING: Final = (
    "Times in ms. last: collectives to which it came last; p: chance of so many by luck; late: "
    "after the second last, median; caused: waiting of the others then; saves: had it come with "
    "the second last; wait: of its own, for others; hidden: of it, under other work of its own; "
    "share: wait of its time."
)


WORK: Final = (
    "file", "n", "/s", "/step", "us", "busy", "gap", "to device", "to host", "launch", "sync",
)  # fmt: skip
WORK_TITLES: Final = {
    "device": "Kernels of the device",
    "host": "Operators of the host: no device in these files",
}
WORK_MEANING: Final = (
    "us: what the median one takes; busy: share of the time in which one runs; gap: the longest "
    "without, ms; to device, to host: copies, bytes, share of the time; launch, sync: share of the "
    "time in which the host launches, or waits."
)
COUNTERS: Final = ("kernel", "n", "ms", "IPC", "GB/s", "DRAM", "SM", "warps stall on")
MOST_KERNELS: Final = 20
MOST_REASONS: Final = 3


def show_work(works: "dict[str, DeviceWork]") -> None:
    """A line a file, columns that are empty throughout left out."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for where, title in WORK_TITLES.items():
        lines = [_work(file, each) for file, each in works.items() if each.where == where]
        used = [i for i in range(len(WORK)) if any(line[i] != "-" for line in lines)]
        shown = Table(title=title)
        for i in used:
            shown.add_column(WORK[i], justify="right" if i else "left", overflow="fold")
        for line in lines:
            shown.add_row(*(Text(line[i]) for i in used))
        if lines:
            console.print(shown)
    if works:
        console.print(WORK_MEANING, style="dim", markup=False, highlight=False)


def _work(file: str, work: "DeviceWork") -> list[str]:
    from pathlib import Path

    from harness.findings.text import short

    return [
        short(Path(file).name),
        f"{work.n_units:,}",
        f"{work.units_per_s:,.0f}",
        "-" if work.n_steps is None else f"{work.n_units / work.n_steps:.0f}",
        "-" if work.unit_median_s is None else f"{work.unit_median_s * 1e6:.3g}",
        f"{work.busy_share:.0%}",
        _ms(work.longest_gap_s),
        *(_copied(work.copies.get(way)) for way in ("host to device", "device to host")),
        *("-" if s is None else f"{s:.0%}" for s in (work.launch_share, work.sync_share)),
    ]


def show_counters(file: str, rows: "Sequence[KernelRow]") -> None:
    """Kernels by their time, and what their warps wait for."""
    from pathlib import Path

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from harness.findings.kernel_stalls import MEANINGS
    from harness.findings.text import short

    shown = Table(title=Text(f"Kernels of {short(Path(file).name)}"))
    for head in COUNTERS:
        shown.add_column(head, justify="left" if head in {"kernel", COUNTERS[-1]} else "right")
    for row in rows[:MOST_KERNELS]:
        most = list(row.stalls.items())[:MOST_REASONS]
        rate = row.dram_bytes_per_s
        shown.add_row(
            Text(short(row.kernel, 60)),
            str(row.n_launches),
            _ms(row.time_s),
            "-" if row.instructions_per_cycle is None else f"{row.instructions_per_cycle:.2f}",
            "-" if rate is None else f"{rate / 1e9:.3g}",
            *("-" if share is None else f"{share:.0%}" for share in (row.dram_share, row.sm_share)),
            ", ".join(f"{reason} {share:.0%}" for reason, share in most) or "-",
        )
    console = Console()
    console.print(shown)
    if len(rows) > MOST_KERNELS:
        console.print(f"{len(rows) - MOST_KERNELS:,} kernels with less time are not shown")
    named = dict.fromkeys(reason for row in rows[:MOST_KERNELS] for reason in [*row.stalls][:3])
    for reason in named:
        meaning = MEANINGS.get(reason, "a reason that is not known here")
        console.print(Text(f"{reason}: {meaning}", style="dim"))


def _copied(copies: "Copies | None") -> str:
    if copies is None:
        return "-"
    size = "" if copies.n_bytes is None else f", {copies.n_bytes / 1e6:.3g} MB"
    return f"{copies.n:,}{size}, {copies.share:.0%}"


def show_ranks(table: "RankTable") -> None:
    """Who was late, who waited, and how to read it."""
    from rich.console import Console
    from rich.table import Table

    console = Console()
    shown = Table(title=f"Implicit synchronisation, {len(table.rows)} ranks")
    for head in HEADS:
        shown.add_column(head, justify="right", no_wrap=True)
    for row in table.rows:
        times = (row.late_s, row.late_most_s, row.caused_s, row.saves_s, row.wait_s, row.hidden_s)
        cells = (str(row.rank), str(row.n_last), f"{row.p:.1g}", *map(_ms, times))
        shown.add_row(*cells, f"{row.wait_share:.0%}")
    console.print(shown)
    console.print(
        f"{table.n_collectives:,} collectives in {table.span_s:.3f} s; in {table.n_told:,} of them "
        f"a rank came last by more than the clocks' error, {table.clock_error_s * 1e6:.0f} us. "
        + MEANING,
        style="dim",
        markup=False,
        highlight=False,
    )


def show_symptoms(symptoms: "Sequence[Symptom]", caveats: "Sequence[str]") -> None:
    """What is wrong and what to do, then what limits it."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for each in symptoms:
        console.print(Text(f"{each.name}: {each.seen}", style="bold"))
        console.print(Text(f"  cause: {each.cause}\n  fix: {each.fix}"))
    if not symptoms:
        console.print(Text("no symptom", style="bold"))
    for caveat in caveats:
        console.print(Text(f"caveat: {caveat}"))


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "-"
    return f"{seconds * 1e3:.0f}" if seconds >= 0.1 else f"{seconds * 1e3:.3g}"
