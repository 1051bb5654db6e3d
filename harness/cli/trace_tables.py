"""What profilers' files say, on the terminal."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.findings.ranks import RankTable
    from harness.findings.symptoms import Symptom


HEADS: Final = ("rank", "last", "p", "late", "most", "caused", "saves", "wait", "hidden", "share")
MEANING: Final = (
    "Times in ms. last: collectives to which it came last; p: chance of so many by luck; late: "
    "after the second last, median; caused: waiting of the others then; saves: had it come with "
    "the second last; wait: of its own, for others; hidden: of it, under other work of its own; "
    "share: wait of its time."
)


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
