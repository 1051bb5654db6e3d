"""Streaming: what the front and the engine's books cost per token, against a bare ASGI send.

The server and the bare application run side by side as processes of their own, idle while the other
one is measured. The bare one sends an event of the server's as often as the server did. Clock:
processor time of the process; the engine's books are measured alone (`books`), because in the
engine's process they cannot be told from the model.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from harness.server.options import ServerOptions
from harness.server.process import start_server
from tools.bench_server.batch import Batch
from tools.bench_server.books import Books
from tools.bench_server.engine_decode import PATHS
from tools.bench_server.event_streams import EventStreams
from tools.bench_server.ratio import ratio
from tools.bench_server.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.server.model import Llama
    from tools.bench_server.effort import Effort
    from tools.bench_server.event_streams import Cost

CONTEXT: Final = 32


def compare_streams(model: Llama, streams: Sequence[int], effort: Effort) -> Table:
    """Time streams of both paths against bare ones."""
    table = Table(
        "stream",
        "Processor time per token of front and engine's books over a bare ASGI send.",
        (
            "streams", "path", "front us", "books us", "bare us", "ratio",
            "bare us, common tick", "ratio, common tick", "wall us",
        ),
    )  # fmt: skip
    options = ServerOptions(port=0, max_num_seqs=max(streams), kv_tokens=16384, threads=1)
    with start_server(options) as server, _bare_server() as bare:
        served = EventStreams(f"{server.url}/v1/completions", [server.pid])
        for n_streams in streams:
            for path, features in PATHS.items():
                costs = _measure(served, bare, n_streams, path, effort)
                fronts, own, common = (
                    [cost.processor_s[0] for cost in each] for each in zip(*costs, strict=True)
                )
                batch = Batch(n_streams, 4 * CONTEXT, effort.n_steps)
                with Books(model, features, batch) as books:
                    kept = [books() / n_streams for _ in costs]
                both = [front + book for front, book in zip(fronts, kept, strict=True)]
                table.add(
                    n_streams,
                    path,
                    _median_us(fronts),
                    _median_us(kept),
                    _median_us(own),
                    ratio(both, own),
                    _median_us(common),
                    ratio(both, common),
                    _median_us([cost[0].wall_s for cost in costs]),
                )
    return table


def _median_us(seconds: Sequence[float]) -> float:
    return statistics.median(seconds) * 1e6


def _measure(
    served: EventStreams, bare: EventStreams, n_streams: int, path: str, effort: Effort
) -> list[tuple[Cost, ...]]:
    """Let server and bare application take turns, who begins too; both keep one pace."""
    n_tokens = effort.n_stream_tokens
    asked = {
        "prompt": list(range(300, 300 + CONTEXT)), "max_tokens": n_tokens, "stream": True,
        "ignore_eos": True, "temperature": 0.0,
    }  # fmt: skip
    accel = "false" if path == "baseline" else "true"
    last = served.run(asked, n_streams, n_tokens, accel)  # warms up, and sets the pace
    costs = []
    for number in range(effort.n_blocks):
        alone: tuple[Cost, ...] = ()
        for turn in ("server", "bare") if number % 2 else ("bare", "server"):
            if turn == "server":
                last = served.run(asked, n_streams, n_tokens, accel)
            else:
                alone = _run_bare(bare, served.example, n_streams, n_tokens, last.wall_s)
        costs.append((last, *alone))
    return costs


def _run_bare(
    bare: EventStreams, event: str, n_streams: int, n_tokens: int, wall_s: float
) -> tuple[Cost, ...]:
    """The bare application's events at the server's pace: each stream's own tick, and a common."""
    wanted = {"event": event, "n_events": n_tokens, "period_s": wall_s * n_streams}
    return tuple(
        bare.run({**wanted, "has_common_tick": is_common}, n_streams, n_tokens)
        for is_common in (False, True)
    )


@contextmanager
def _bare_server() -> Iterator[EventStreams]:
    """Run the bare application."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", "tools.bench_server.bare_stream", str(listener.fileno())]
        process = subprocess.Popen(command, pass_fds=[listener.fileno()])  # noqa: S603  our own module
    try:
        yield EventStreams(f"http://127.0.0.1:{port}/", [process.pid])
    finally:
        process.terminate()
        process.wait()
