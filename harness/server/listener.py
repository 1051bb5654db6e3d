"""The socket that a server listens on: bound first, so that a taken port is told at once."""

from __future__ import annotations

import errno
import socket

from harness.base.errors import SetupError

_BACKLOG = 2048


def bind(host: str, port: int) -> socket.socket:
    """Bind the address the server will listen on.

    Raises:
        SetupError: The port is taken, or the host is not this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol by name: asyncio switches Nagle's algorithm off only where it reads "TCP".
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except (OSError, UnicodeError) as error:  # the latter: what no name can be
        raise SetupError(f"--host {host}: {error}. Give an address of this machine.") from error
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise SetupError(
                f"port {port} on {host} is taken. Stop what listens there, or give another port "
                "with --port (0 takes any free one)."
            ) from error
        raise SetupError(
            f"--host {host} --port {port}: cannot be bound ({error.strerror}). Give an address of "
            "this machine and a port above 1023."
        ) from error
    return listener
