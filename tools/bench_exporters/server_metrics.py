"""What the server's metrics cost: processor time per token with and without, and per scrape.

Counting is compared on the two ends of a link, each with and without it, in turns; what a token
costs the server in all is measured beside it, on a real one with 16 streams.
"""

from __future__ import annotations

import asyncio
import http.client
import statistics
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from harness.server.engine_link import EngineLink
from harness.server.engine_series import EngineSeries
from harness.server.frames import Frame, encode_frame
from harness.server.job import Job, TokenItem
from harness.server.options import ServerOptions
from harness.server.pools import Placement, Pool
from harness.server.process import start_server
from tools.bench_server.event_streams import EventStreams, children, processor_s
from tools.bench_server.ratio import time_in_turns
from tools.bench_server.table import Table

if TYPE_CHECKING:
    from collections.abc import Callable

N_STREAMS: Final = 16
N_STEPS: Final = 400
N_TOKENS: Final = 300
N_SCRAPES: Final = 100
_STATE: Final = {
    "running": 16, "waiting": 0, "kv_held": 4096, "kv_kept": 0,
    "evictions": 3, "prefix_queries": 512, "prefix_hits": 48,
}  # fmt: skip
_OPENMETRICS: Final = {"Accept": "application/openmetrics-text"}


class PlainLink(EngineLink):
    """A link that counts nothing: what the dispatch of tokens would be without metrics."""

    def _dispatch(self, frame: Frame) -> None:
        self.state = frame["state"]
        until_ns = frame["until_ns"]
        n_prefill = 0
        for job_id, token_id, kind, account, _ in frame["tokens"]:
            job = self._jobs.get(job_id)
            if job is not None:
                n_prefill += job.n_prompt_left
                if job.is_new(token_id):
                    job.push(TokenItem(until_ns, token_id, kind, account, None))
        self.costs.note_step(n_prefill, len(frame["tokens"]))


def frame_of(step: int, *, is_counted: bool) -> Frame:
    """Make the frame of a step that gives every stream a token."""
    frame: Frame = {
        "until_ns": 10**9 + step * 5_000_000,
        "tokens": [(number, 300, "content", None, None) for number in range(1, N_STREAMS + 1)],
        "ends": [],
        "state": _STATE,
    }
    if is_counted:
        frame["n_batch"] = N_STREAMS
        if step % 10 == 0:
            frame["gc"] = {"n_allocated": 700 * step, "pauses": [(0, 40_000)]}
    return frame


async def link_cost(*, is_counted: bool) -> float:
    """Encode and dispatch many steps; give the seconds a token takes."""
    kind = EngineLink if is_counted else PlainLink
    link = kind("cpu", EngineSeries(), lambda _: None)
    placement = Placement(pool=Pool(ServerOptions(), link, 0), n_slots=64)
    for _ in range(N_STREAMS):
        command: Frame = {"tokens": [1], "sent_ns": 0}
        job = Job(
            placement=placement, path="baseline", command=command, n_output=N_STEPS,
            has_items=asyncio.Event(),
        )  # fmt: skip
        link.take(job)
    began = time.process_time()
    for step in range(N_STEPS):
        link.data_received(encode_frame(frame_of(step, is_counted=is_counted)))
    return (time.process_time() - began) / (N_STEPS * N_STREAMS)


def contender(*, is_counted: bool) -> Callable[[], float]:
    """Give the cost of one way as a function."""
    return lambda: asyncio.run(link_cost(is_counted=is_counted))


def token_costs(streams: EventStreams, n_blocks: int) -> list[tuple[float, float]]:
    """Give what a token costs front and engine, block by block."""
    asked: dict[str, Any] = {
        "prompt": list(range(300, 332)), "max_tokens": N_TOKENS, "stream": True,
        "ignore_eos": True, "temperature": 0.0,
    }  # fmt: skip
    costs = [streams.run(asked, N_STREAMS, N_TOKENS).processor_s for _ in range(n_blocks + 1)]
    return [(front, engine) for front, engine in costs[1:]]


def scrape_ms(url: str, pid: int, path: str, headers: dict[str, str]) -> float:
    """Give the front's processor time per scrape, HTTP included."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    began = processor_s(pid)
    for _ in range(N_SCRAPES):
        connection.request("GET", path, headers=headers)
        connection.getresponse().read()
    spent = processor_s(pid) - began
    connection.close()
    return 1e3 * spent / N_SCRAPES


def measure_server(n_blocks: int) -> tuple[Table, Table]:
    """Measure both tables."""
    options = ServerOptions(port=0, max_num_seqs=N_STREAMS, kv_tokens=16384, threads=1)
    with start_server(options) as server:
        (engine,) = children(server.pid)
        streams = EventStreams(f"{server.url}/v1/completions", [server.pid, engine])
        whole = token_costs(streams, n_blocks)
        scrapes = [
            (name, scrape_ms(server.url, server.pid, path, headers))
            for _ in range(n_blocks)
            for name, path, headers in (
                ("text", "/metrics?format=text", {}),
                ("OpenMetrics", "/metrics", _OPENMETRICS),
            )
        ]
    times = time_in_turns(
        {True: contender(is_counted=True), False: contender(is_counted=False)}, 3 * n_blocks
    )
    added = statistics.median(a - b for a, b in zip(times[True], times[False], strict=True))
    tokens = Table(
        "server_metrics",
        f"Counting, processor time per token, {N_STREAMS} streams ({n_blocks} blocks)",
        ("added us", "front us", "front and engine us", "share of front %", "share of server %"),
    )
    fronts = [front for front, _ in whole]
    both = [front + engine for front, engine in whole]
    tokens.add(
        added * 1e6,
        statistics.median(fronts) * 1e6,
        statistics.median(both) * 1e6,
        f"{100 * added / statistics.median(fronts):.2f}",
        f"{100 * added / statistics.median(both):.2f}",
    )
    page = Table(
        "server_scrape", f"A scrape, processor time of the front ({N_SCRAPES} a block)",
        ("format", "ms"),
    )  # fmt: skip
    for name in ("text", "OpenMetrics"):
        page.add(name, f"{statistics.median(ms for each, ms in scrapes if each == name):.2f}")
    return tokens, page
