"""The front's process: binds the port, starts the engine, serves HTTP until told to stop.

Order matters: the port first, so that a taken one is told at once; then an engine for each pool
(`engine_child`); HTTP is answered only when every model is loaded. A front whose last engine died
answers with errors for a short while, then ends too.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from functools import partial
from typing import TYPE_CHECKING

import uvicorn

from harness.base.errors import SetupError
from harness.server.engine_child import EngineChild
from harness.server.engine_series import FRONT
from harness.server.fingerprint import fingerprint_of
from harness.server.front import Front
from harness.server.front_protocol import protocol_class
from harness.server.http_api import build_app
from harness.server.journal import Journal
from harness.server.listener import bind
from harness.server.loop_lag import LoopLag
from harness.server.metrics_endpoint import ServerMetrics
from harness.server.phases import GcPauses
from harness.server.pools import Pools
from harness.server.stdin import at_end_of_stdin
from harness.server.tokenizer import TextTokenizer

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.server.options import ServerOptions

_SEND_BUFFER_BYTES = 1 << 16
"""Per connection: without a bound Linux would keep up to 4 MiB for a client that does not read."""
_log = logging.getLogger(__name__)


class EngineDiedError(SetupError):
    """The last engine process ended while the server was running."""


def run_server(
    options: ServerOptions, on_ready: Callable[[str], None], *, ends_with_stdin: bool = False
) -> None:
    """Serve until SIGTERM or SIGINT.

    Args:
        options: What the command line said.
        on_ready: Called once with the URL when requests are answered.
        ends_with_stdin: Also stop when standard input is closed, as it is when the process that
            started this one dies.

    Raises:
        TailbreakError: The server could not start, or its engine died.
    """
    logging.basicConfig(
        level=options.log_level.upper(), format="%(levelname)s %(name)s %(message)s"
    )
    # Until uvicorn takes over, SIGTERM unwinds like an exception: nothing is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    api_key = options.require_safe()
    tokenizer = TextTokenizer.load(options.model_folder)
    journal = Journal(options.journal, delay_s=options.faults.store_delay_s)
    listener = bind(options.host, options.port)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER_BYTES)
    engines: list[EngineChild] = []
    try:
        engines += (EngineChild(options.of_pool(pool)) for pool in options.pool)
        serving = _Serving(options, api_key, tokenizer, journal, listener, engines)
        loop_factory = uvicorn.Config(_no_app).get_loop_factory()
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(serving.run(on_ready, ends_with_stdin=ends_with_stdin))
    finally:
        listener.close()
        journal.close()
        for engine in engines:
            engine.end()


async def _no_app(*_: object) -> None:
    """Stand in for an application where uvicorn's settings alone are wanted."""


class _Serving:
    """One run of the server inside the event loop."""

    def __init__(
        self,
        options: ServerOptions,
        api_key: str | None,
        tokenizer: TextTokenizer,
        journal: Journal,
        listener: socket.socket,
        engines: list[EngineChild],
    ) -> None:
        self._options = options
        self._api_key = api_key
        self._tokenizer = tokenizer
        self._journal = journal
        self._listener = listener
        self._engines = engines
        self._server: uvicorn.Server | None = None
        self._is_stopping = False
        self._has_failed = False

    async def run(self, on_ready: Callable[[str], None], *, ends_with_stdin: bool) -> None:
        """Connect, wait for the model, serve."""
        pools = Pools(self._on_last_death)
        metrics = ServerMetrics(self._options)
        # Awaited together: a SIGTERM amid the start must leave nothing that nobody waits for.
        connecting = (
            engine.connect(self._tokenizer, pools, metrics.engines) for engine in self._engines
        )
        fingerprint, ready = await asyncio.gather(
            asyncio.to_thread(fingerprint_of, self._options), asyncio.gather(*connecting)
        )
        for pool, _ in ready:
            pools.add(pool)
        pauses = GcPauses(partial(metrics.engines.note_pause, FRONT)).install()
        front = Front(
            options=self._options,
            api_key=self._api_key,
            tokenizer=self._tokenizer,
            pools=pools,
            max_model_len=min(longest for _, longest in ready),
            journal=self._journal,
            metrics=metrics,
            pauses=pauses,
            fingerprint=fingerprint,
        )
        config = uvicorn.Config(
            build_app(front),
            http=protocol_class(self._options.client_timeout, front.metrics.record_refused),
            ws="none",
            log_level=self._options.log_level,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            server_header=False,
        )
        self._server = uvicorn.Server(config)
        if ends_with_stdin:
            at_end_of_stdin(lambda: signal.raise_signal(signal.SIGTERM))
        # uvicorn raises the signal that stopped it once more when it has shut down; by default that
        # would end this process before it has tidied up.
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        lag = LoopLag(metrics.loop_lag)
        planted = asyncio.ensure_future(self._plant())
        announcing = asyncio.ensure_future(self._announce(self._server, on_ready))
        await self._server.serve(sockets=[self._listener])
        self._is_stopping = True
        announcing.cancel()
        lag.close()
        planted.cancel()
        await asyncio.wait([planted])
        pauses.remove()
        front.collector.close()
        pools.close()
        front.journal_queue.close()
        if self._has_failed:
            raise EngineDiedError(
                "the engine process died while serving (out of memory, or killed). "
                "Start the server again; with less memory, give smaller --kv-tokens."
            )

    async def _plant(self) -> None:
        """Carry out the faults that come by the front's clock."""
        if self._options.faults.connections is not None:
            await self._journal.connections.lose(self._options.faults.connections)

    async def _announce(self, server: uvicorn.Server, on_ready: Callable[[str], None]) -> None:
        while not server.started:  # noqa: ASYNC110  uvicorn offers a flag, no event
            await asyncio.sleep(0.01)
        host, port = self._listener.getsockname()[:2]
        on_ready(f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}")

    def _on_last_death(self) -> None:
        """Answer with errors for a while, then end: this server can never serve again."""
        if self._is_stopping or self._server is None or self._server.should_exit:
            return
        self._has_failed = True
        _log.error(
            "the engine process died; this server ends in %s s", self._options.engine_grace_s
        )
        asyncio.get_running_loop().call_later(self._options.engine_grace_s, self._stop)

    def _stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
