"""A bar on stderr for work in stages, where someone watches; it says which is being done."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stages(total: int) -> Iterator[Callable[[str], None]]:
    """Yield the function to call with a stage's name as it begins."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        done = iter(range(total))
        yield lambda name: bar.update(task, completed=next(done), description=escape(name))
