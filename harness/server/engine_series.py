"""What steps and garbage searches add to `/metrics`: kept where the engines' frames arrive.

In the path of every token, so a step's equal gaps are counted in one go. One instance a server;
every engine link and the front's own collector write to it, in one event loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.metrics.catalogue import server as catalogue
from harness.server.series import Histograms, Values

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

FRONT: Final = "front"


class EngineSeries:
    """Gaps between tokens, batches, and the garbage searches of every process."""

    def __init__(self) -> None:
        self.itl = Histograms(catalogue.ITL)
        self.batch = Histograms(catalogue.BATCH)
        self.gc_pause = Histograms(catalogue.GC_PAUSE)
        self.gc_allocated = Values(catalogue.GC_ALLOCATED)

    def note_step(self, pool: str, frame: Mapping[str, Any]) -> None:
        """Take what a step's frame tells: who took part, and the searches since the last one."""
        if frame["n_batch"]:
            self.batch.observe(frame["n_batch"], pool)
        if "gc" in frame:
            self.gc_allocated.set(frame["gc"]["n_allocated"], pool)
            for generation, duration_ns in frame["gc"]["pauses"]:
                self.note_pause(pool, generation, duration_ns)

    def note_gaps(self, gaps: Mapping[tuple[str, int], int], until_ns: int) -> None:
        """Count a step's tokens by (path, stamp of the token before)."""
        for (path, since_ns), n_tokens in gaps.items():
            if since_ns:
                self.itl.of(path).observe((until_ns - since_ns) / 1e9, n_tokens)

    def note_pause(self, process: str, generation: int, duration_ns: int) -> None:
        """Count one search for garbage."""
        self.gc_pause.observe(duration_ns / 1e9, process, str(generation))
