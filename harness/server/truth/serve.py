"""The truth server's process: one thread, one event loop with exact timers, loopback only."""

import asyncio
import gc
import select
import selectors
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harness.base.scheduling import ask_for_priority, ask_for_short_slices
from harness.server.listener import bind
from harness.server.stdin import at_end_of_stdin
from harness.server.truth.connection import Connection
from harness.server.truth.law import Law, Stall
from harness.server.truth.log import Log
from harness.server.truth.planter import Planter, stand_still

HOST: Final = "127.0.0.1"
FLUSH_PERIOD_S: Final = 1.0
STOPPING: Final = (signal.SIGINT, signal.SIGTERM)


def exact_selector() -> selectors.BaseSelector:
    """A selector that wakes to some tens of microseconds.

    Python hands epoll its timeout in whole milliseconds, rounded up, which would make every send up
    to a millisecond late. An epoll descriptor can itself be waited for, and `select` takes
    fractions.
    """
    epoll = getattr(selectors, "EpollSelector", None)
    if epoll is None:
        return selectors.DefaultSelector()

    class ExactSelector(epoll):  # type: ignore[misc,valid-type]  # a class known at run time
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None and timeout > 0:
                select.select([self.fileno()], [], [], timeout)
                timeout = 0
            ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
            return ready

    return ExactSelector()


def run_truth_server(
    law: Law,
    *,
    port: int,
    record: Path | None,
    announce: Callable[[str], None],
    ends_with_stdin: bool,
) -> None:
    """Serve a law until a signal, or the end of standard input, says stop.

    Raises:
        SetupError: the port is taken, or the record cannot be made.
    """
    log = Log(record)
    try:
        listener = bind(HOST, port)
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            runner.run(
                _serve(Planter(law, log), listener, announce, ends_with_stdin=ends_with_stdin)
            )
    finally:
        log.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(exact_selector())


async def _serve(
    planter: Planter,
    listener: socket.socket,
    announce: Callable[[str], None],
    *,
    ends_with_stdin: bool,
) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in STOPPING:
        loop.add_signal_handler(number, stop.set)
    if ends_with_stdin:
        at_end_of_stdin(stop.set)
    server = await loop.create_server(lambda: Connection(planter), sock=listener)
    _flush_every(planter.log)
    if planter.law.stall is not None and planter.law.stall.period_s is not None:
        _stall_every(planter.law.stall, planter.law.stall.period_s)
    ask_for_priority()
    ask_for_short_slices()
    gc.collect()
    gc.freeze()
    announce(f"http://{HOST}:{listener.getsockname()[1]}")
    await stop.wait()
    server.close()


def _flush_every(log: Log) -> None:
    log.flush()
    asyncio.get_running_loop().call_later(FLUSH_PERIOD_S, _flush_every, log)


def _stall_every(stall: Stall, period_s: float) -> None:
    def stall_now() -> None:
        stand_still(stall.length_s)
        _stall_every(stall, period_s)

    asyncio.get_running_loop().call_later(period_s, stall_now)
