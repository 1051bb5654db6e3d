"""Processes with everything they start, each under a name that it keeps."""

from collections.abc import Iterator
from typing import Final

import psutil

from harness.export.process import Watched

LOOK_AGAIN_S: Final = 5.0
"""Finding children reads every process of the machine: not at each scrape."""
MAX_CHILDREN: Final = 256
"""Of one process; a program that starts others all the time must not fill the page."""


class ProcessTree:
    """Roots that were named, and their descendants: `server`, `server/1`, `server/2`."""

    def __init__(self) -> None:
        self._roots: dict[str, psutil.Process] = {}
        self._found: dict[str, list[int]] = {}
        self._looked_s: float | None = None

    def add(self, name: str, pid: int) -> None:
        """Watch this process and what it starts; nothing happens where it is gone already."""
        try:
            self._roots[name] = psutil.Process(pid)
        except (psutil.Error, ValueError):
            return
        self._found[name] = []
        self._looked_s = None

    def watched(self, now_s: float) -> Iterator[Watched]:
        """Every process seen so far; children are looked for now and then."""
        if self._looked_s is None or now_s - self._looked_s >= LOOK_AGAIN_S:
            self._looked_s = now_s
            self._look()
        for name, root in self._roots.items():
            yield Watched(name, root.pid)
            for number, pid in enumerate(self._found[name], start=1):
                yield Watched(f"{name}/{number}", pid)

    def _look(self) -> None:
        for name, root in self._roots.items():
            try:
                children = sorted(each.pid for each in root.children(recursive=True))
            except psutil.Error:
                continue
            known = self._found[name]
            known += [pid for pid in children if pid not in known][: MAX_CHILDREN - len(known)]
