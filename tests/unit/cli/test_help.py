"""`--help` on a terminal of 80 columns."""

import pytest
from typer.testing import CliRunner

from harness.cli.main import app

VERBS = ("probe", "doctor", "plan", "run", "report", "records", "serve", "truth", "bench")
WIDTH = 80


def _help(*verb: str) -> str:
    result = CliRunner().invoke(app, [*verb, "--help"], env={"COLUMNS": str(WIDTH)})
    assert result.exit_code == 0
    return result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_help_fits_80_columns_and_cuts_nothing(verb: str) -> None:
    """No line is longer, no option name or example is cut, and there is an example."""
    shown = _help(verb)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert "…" not in shown
    assert f"Example: tailbreak {verb}" in shown


def test_paragraphs_are_wrapped_to_the_terminal() -> None:
    """A paragraph's lines are full: the source's own line ends are not shown."""
    lines = [line.strip() for line in _help("run").splitlines()]
    begin = next(i for i, line in enumerate(lines) if line.startswith("Starts the bundled"))
    paragraph = lines[begin : lines.index("", begin)]
    follows = [after.split()[0] for after in paragraph[1:]]
    assert len(paragraph) > 1
    assert all(
        len(f" {line} {word}") >= WIDTH - 1 for line, word in zip(paragraph, follows, strict=False)
    )


def test_the_first_page_says_where_to_begin() -> None:
    """Every verb, in the order in which one meets them, and the first three commands."""
    shown = _help()
    places = [shown.index(f"│ {verb} ") for verb in VERBS]
    assert places == sorted(places)
    assert "First steps: tailbreak doctor" in shown
