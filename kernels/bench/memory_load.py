"""Processes that load this machine, at a level that can be turned: its memory, or its cores only.

Copies between arrays far beyond the caches, for so much of each period; or the same work inside the
cache, which takes as much processor time and next to no memory bandwidth: the control.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

import numpy as np

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess
    from multiprocessing.sharedctypes import Synchronized

Kind = Literal["memory", "processor"]

PERIOD_S: Final = 0.01
N_BYTES: Final[dict[Kind, int]] = {"memory": 1 << 25, "processor": 1 << 13}
COMES_UP_S: Final = 60.0
PIECE: Final = 1 << 20
"""Of the array copied at once: a level is kept to within the time that this takes."""


class Load:
    """What so many processes do.

    Attributes:
        level: share of each period that they work, 0 to 1; set it at any time.
    """

    def __init__(self, level: Synchronized[float], moved: list[Synchronized[int]]) -> None:
        self._level = level
        self._moved = moved

    @property
    def level(self) -> float:
        """Share of each period that the processes work."""
        return float(self._level.value)

    @level.setter
    def level(self, value: float) -> None:
        self._level.value = value

    def moved(self) -> int:
        """Bytes that were read and written so far."""
        return sum(int(each.value) for each in self._moved)


@contextmanager
def loading(kind: Kind, n_processes: int) -> Iterator[Load]:
    """So many processes at level 0, all of them up, which end with the block.

    Raises:
        RuntimeError: one of them ended or did not come up.
    """
    spawn = multiprocessing.get_context("spawn")
    level, is_over = spawn.Value("d", 0.0), spawn.Event()
    moved = [spawn.Value("q", 0) for _ in range(n_processes)]
    processes = [spawn.Process(target=_copy, args=(kind, level, each, is_over)) for each in moved]
    load = Load(level, moved)
    for each in processes:
        each.start()
    try:
        _wait_for_all(processes, moved)
        yield load
    finally:
        is_over.set()
        for each in processes:
            each.join(timeout=10)
            if each.is_alive():
                each.kill()


def _wait_for_all(processes: list[SpawnProcess], moved: list[Synchronized[int]]) -> None:
    until = time.monotonic() + COMES_UP_S
    while any(not each.value for each in moved):
        if time.monotonic() > until or any(each.exitcode is not None for each in processes):
            raise RuntimeError("a process that should load the machine did not come up")
        time.sleep(0.01)


def _copy(
    kind: Kind, level: Synchronized[float], moved: Synchronized[int], is_over: object
) -> None:
    source = np.ones(N_BYTES[kind], dtype=np.uint8)
    target = np.empty_like(source)
    pieces = [slice(i, i + PIECE) for i in range(0, len(source), PIECE)]
    np.copyto(target, source)
    moved.value = 2 * len(source)
    turn, parent = 0, os.getppid()
    # Whoever started this may have been killed: nobody would end it then.
    while not is_over.is_set() and os.getppid() == parent:  # type: ignore[attr-defined]
        begun = time.perf_counter()
        while time.perf_counter() - begun < PERIOD_S * level.value:
            piece = pieces[turn % len(pieces)]
            np.copyto(target[piece], source[piece])
            moved.value += 2 * len(source[piece])
            turn += 1
        time.sleep(max(0.0, PERIOD_S - (time.perf_counter() - begun)))
