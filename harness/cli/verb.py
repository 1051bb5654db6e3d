"""How a verb is put on a command line: its help is its docstring, wrapped to the terminal."""

import inspect
from collections.abc import Callable

import typer


def add_verb(app: typer.Typer, verb: Callable[..., None], name: str | None = None) -> None:
    """Add a verb; its paragraphs are wrapped to the terminal and not as in the source."""
    paragraphs = inspect.cleandoc(verb.__doc__ or "").split("\n\n")
    app.command(name, help="\n\n".join(" ".join(each.split()) for each in paragraphs))(verb)
