"""The operating system's own sockets, also where gevent has replaced the standard library's.

The client waits through the event loop's watchers, so it needs plain non-blocking sockets.
"""

import socket
import sys

NativeSocket = socket.socket


def native_socket(
    family: int, kind: int = socket.SOCK_STREAM, *, fileno: int | None = None
) -> NativeSocket:
    """An unpatched socket, new or around an open descriptor, blocking until told otherwise."""
    monkey = sys.modules.get("gevent.monkey")
    make = monkey.get_original("socket", "socket") if monkey else socket.socket
    sock: NativeSocket = make(family, kind, 0, fileno)
    return sock


def native_accept(listener: NativeSocket) -> NativeSocket:
    """Accept as an unpatched socket; the standard `accept` would make one of the patched class."""
    fileno, _ = listener._accept()  # type: ignore[attr-defined]  # noqa: SLF001
    return native_socket(listener.family, listener.type, fileno=fileno)
