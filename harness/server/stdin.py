"""Standard input as a sign of life: it ends when the process that holds its other end does."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def at_end_of_stdin(act: Callable[[], None]) -> None:
    """Call `act` once in the running loop when standard input ends; what comes is nobody's."""
    loop = asyncio.get_running_loop()
    number = sys.stdin.fileno()

    def read() -> None:
        if not os.read(number, 4096):
            loop.remove_reader(number)
            act()

    loop.add_reader(number, read)
