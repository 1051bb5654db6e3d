"""When a process looks for cyclic garbage: by the interpreter's thresholds, or `gc_tuned`.

Reference counts free nearly everything at once; the search for cycles is for the rest, and by
default it begins whenever enough objects were made: in the middle of a step. Tuned, it waits for an
idle moment, and what start-up made is frozen, so that no search walks through it again.
The engine tunes by its mode, the front by who is in flight (`FrontCollector`).
"""

from __future__ import annotations

import asyncio
import gc
from typing import Final

QUIET_S: Final = 0.01
"""A process is idle when nothing has come for so long."""
MOST_NEW_OBJECTS: Final = 50_000
"""Container objects made and not freed since the last search; with more a busy process searches."""
_YOUNG: Final = 1
_OLD: Final = 2


class Collector:
    """Switches this process between the interpreter's rule and the tuned one."""

    def __init__(self) -> None:
        # All that start-up made is old now, and the interpreter has counted it: its own rule starts
        # from the same state whatever ran before.
        gc.collect()
        self.is_tuned = False
        self._is_frozen = False
        self._is_due = False

    def tune(self, *, is_tuned: bool) -> None:
        """Choose the rule for what runs next; switching searches nothing."""
        if is_tuned and not self.is_tuned:
            gc.disable()
        elif self.is_tuned and not is_tuned:
            gc.unfreeze()
            gc.enable()
            self._is_frozen = False
        self.is_tuned = self._is_due = is_tuned

    @property
    def is_due(self) -> bool:
        """Whether an idle moment should be used."""
        return self._is_due

    def bound(self) -> None:
        """Search now, although busy, if too much has gathered; cheap where it has not."""
        if self.is_tuned and gc.get_count()[0] > MOST_NEW_OBJECTS:
            self.tidy()

    def tidy(self) -> None:
        """Search what has come since the last time; freeze the rest the first time.

        The young generations only: a full search while most is frozen would make the interpreter
        count few old objects, and so search everything too soon once its own rule is back. What
        outlived a search and became garbage later is bounded as well.
        """
        gc.collect(_YOUNG)
        self._is_due = False
        if not self._is_frozen:
            gc.freeze()
            self._is_frozen = True
        elif len(gc.get_objects(generation=_OLD)) > MOST_NEW_OBJECTS:
            gc.collect()


class FrontCollector:
    """The front's: shared by requests of all kinds, so tuned while all in flight ask for it."""

    def __init__(self) -> None:
        self._collector = Collector()
        self._is_tuned: dict[object, bool] = {}

    def enter(self, request: object, *, is_tuned: bool) -> None:
        """Take a request in."""
        self._is_tuned[request] = is_tuned
        self._follow()

    def leave(self, request: object) -> None:
        """Let a request go; unknown ones are ignored. The last one leaves an idle front behind."""
        self._is_tuned.pop(request, None)
        if self._is_tuned:
            self._follow()
        elif self._collector.is_due:
            asyncio.get_running_loop().call_later(QUIET_S, self._tidy)

    def close(self) -> None:
        """Give the interpreter its own rule back."""
        self._collector.tune(is_tuned=False)

    def _follow(self) -> None:
        self._collector.tune(is_tuned=all(self._is_tuned.values()))
        self._collector.bound()

    def _tidy(self) -> None:
        if not self._is_tuned and self._collector.is_due:
            self._collector.tidy()
