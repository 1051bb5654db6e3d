"""Starts a truth server as a process of its own, and reads its log: for tools and tests."""

import json
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.server.process import start_verb


@dataclass(frozen=True)
class TruthProcess:
    """A running truth server."""

    url: str

    def log(self) -> list[dict[str, Any]]:
        """What it really did: one entry per request that it still remembers."""
        entries: list[dict[str, Any]] = []
        while True:
            after = entries[-1]["number"] if entries else 0
            url = f"{self.url}/log?after={after}"
            with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310  our own URL
                page = json.load(reply)["entries"]
            if not page:
                return entries
            entries += page


@contextmanager
def start_truth(law: Path, *options: str) -> Iterator[TruthProcess]:
    """A truth server on this law file, stopped at the end.

    Raises:
        SetupError: it did not start; the message holds its last lines.
    """
    with start_verb("truth", [str(law), "--port", "0", *options]) as server:
        yield TruthProcess(server.url)
