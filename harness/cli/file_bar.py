"""A bar on stderr over the bytes of files that are read, where someone watches."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

Passed = Callable[[int], object]


@contextmanager
def file_bar(files: Sequence[Path]) -> Iterator[Callable[[Path], Passed]]:
    """Yield the function to call as each file begins; what it gives takes the bytes behind."""
    if not sys.stderr.isatty():
        yield lambda _: lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import Progress

    from harness.findings.text import short

    sizes = [file.stat().st_size if file.is_file() else 0 for file in files]
    starts = (sum(sizes[:n]) for n in range(len(files)))
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=sum(sizes))

        def begin(file: Path) -> Passed:
            start = next(starts)
            bar.update(task, completed=start, description=escape(short(file.name)))
            return lambda n: bar.update(task, completed=start + n)

        yield begin
