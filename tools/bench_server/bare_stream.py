"""A bare ASGI application that streams prebuilt events: the least an HTTP stream could cost.

    python -m tools.bench_server.bare_stream FD

Serves the listening socket FD with uvicorn, set up as the server's own front is. A request says how
many events it wants, what an event holds, how often one comes, and by which clock: each stream
sleeps for itself, as one would write it, or all go out at one tick, as the tokens of an engine's
step do, which costs less.
"""

import asyncio
import json
import socket
import sys
from typing import TYPE_CHECKING, Any

import uvicorn

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class Ticker:
    """Wakes everybody who waits, once a period, while anybody does."""

    def __init__(self) -> None:
        self._tick: asyncio.Future[None] | None = None

    def next(self, period_s: float) -> asyncio.Future[None]:
        """Give what the next tick completes."""
        if self._tick is None:
            loop = asyncio.get_running_loop()
            self._tick = loop.create_future()
            loop.call_later(period_s, self._wake)
        return self._tick

    def _wake(self) -> None:
        tick, self._tick = self._tick, None
        if tick is not None:
            tick.set_result(None)


TICKER = Ticker()


async def app(scope: "Scope", receive: "Receive", send: "Send") -> None:
    """Stream what the body asks for."""
    del scope
    body = b""
    while True:
        message = await receive()
        body += message["body"]
        if not message["more_body"]:
            break
    asked: dict[str, Any] = json.loads(body)
    event, period_s = asked["event"].encode(), asked["period_s"]
    head = [(b"content-type", b"text/event-stream; charset=utf-8")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for _ in range(asked["n_events"]):
        await (TICKER.next(period_s) if asked["has_common_tick"] else asyncio.sleep(period_s))
        await send({"type": "http.response.body", "body": event, "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})


def main() -> None:
    """Serve until killed."""
    config = uvicorn.Config(app, lifespan="off", log_level="error", access_log=False, ws="none")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(sys.argv[1]))])


if __name__ == "__main__":
    main()
