"""A comparison of answers on the terminal: a table for each path, and what its columns mean."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rich.table import Table

    from harness.records.fidelity import Draws, Fidelity, Path, Setting

MEANINGS: Final = (
    ("n", "positions compared, along the answers of the baseline"),
    ("close", "left out: rounding decides there which token is chosen or kept"),
    ("KL", "divergence of the distributions that tokens are drawn from, in nats"),
    ("TV", "total variation: the share of draws that could differ"),
    ("top-1", "positions at which both find the same token likeliest"),
    ("token", "positions at which the same seed chose another token"),
    ("draws p", "chance of such draws from the exact distribution; then of each other"),
)
COLUMNS: Final = (
    "sampling", "n", "close", "KL mean", "KL max", "TV max", "top-1", "token", "draws p", "",
)  # fmt: skip


def show_fidelity(found: "Fidelity") -> None:
    """Print every path with its limits, what is past them, and how to read it."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for path in found.paths:
        console.print(_table(path, found))
        for problem in path.problems:
            console.print(Text(f"differs: {problem}", style="red"))
        for caveat in path.caveats:
            console.print(Text(f"caveat: {caveat}"))
        console.print(Text(f"{path.asked}: {_verdict(path)}\n", style="bold"))
    for name, meaning in MEANINGS:
        console.print(Text(f"{name:>8}  {meaning}", style="dim"))
    console.print(Text(f"seed {found.seed}, {found.duration_s:.0f} s", style="dim"))


def _verdict(path: "Path") -> str:
    """The answer, with what was allowed."""
    said = {
        "same": "the same answers as the baseline",
        "within limits": f"within the limits of {', '.join(path.lossy)}",
        "differs": "the answers differ from the baseline's",
    }[path.verdict]
    return f"{said} ({'; '.join(path.limits)})"


def _table(path: "Path", found: "Fidelity") -> "Table":
    from rich.table import Table
    from rich.text import Text

    features = ", ".join(path.features) or "none: this is the baseline"
    against = "the baseline" if found.baseline == "false" else found.baseline
    title = f"{found.model}: {path.asked} ({features}) beside {against}"
    table = Table(title=Text(title), title_justify="left", box=None, padding=(0, 1, 0, 0))
    for column in COLUMNS:
        is_text = column == "sampling"
        table.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    for setting in path.settings:
        table.add_row(*map(Text, _row(setting)))
    return table


def _row(setting: "Setting") -> tuple[str, ...]:
    positions, choices = setting.positions, setting.choices
    return (
        setting.name,
        str(positions.n),
        str(choices.n_close),
        _figure(positions.kl.mean),
        _figure(positions.kl.maximum),
        _figure(positions.variation.maximum),
        _share(positions.same_top1),
        f"{choices.n_different} differ" if choices.n_different else "same",
        _p_values(setting.draws),
        "differs" if setting.problems else "ok",
    )


def _figure(value: float | None) -> str:
    return "infinite" if value is None else f"{value:.2g}"


def _share(value: float) -> str:
    """A share that is not whole is never shown as whole."""
    return "100 %" if value == 1 else f"{min(value, 0.9999) * 100:.4g} %"


def _p_values(draws: "Draws | None") -> str:
    if draws is None:
        return "-"
    values = [draws.path] + ([] if draws.paths is None else [draws.paths])
    return ", ".join(f"{value:.2g}" for value in values)
