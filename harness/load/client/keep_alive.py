"""Whether a target keeps connections open after an answer: seen, not believed.

Some servers close after each streamed answer and do not announce it (llama.cpp's is one). A request
that is sent at that moment is lost, and nobody can say whether it was read. So until a connection
was seen to stay open for a while, every request gets a new one.
"""

from typing import Any, Final

from gevent import get_hub

from harness.load.client.native_socket import NativeSocket

PROOF_S: Final = 0.25
"""A connection that is still open so long after an answer is kept."""
_READ: Final = 1


class KeepAlive:
    """What all connections to one target have shown.

    Attributes:
        is_kept: None until one of them was watched to its end or through `PROOF_S`.
    """

    def __init__(self) -> None:
        self.is_kept: bool | None = None
        self._watched: NativeSocket | None = None
        self._watchers: tuple[Any, ...] = ()

    def watch(self, sock: NativeSocket) -> bool:
        """Take over an idle connection to see what becomes of it; False while one is watched."""
        if self.is_kept is not None or self._watched is not None:
            return False
        loop = get_hub().loop
        self._watched = sock
        self._watchers = (loop.io(sock.fileno(), _READ), loop.timer(PROOF_S))
        for watcher, is_kept in zip(self._watchers, (False, True), strict=True):
            watcher.start(self._conclude, is_kept)
        return True

    def close(self) -> None:
        """Let go of what is being watched."""
        for watcher in self._watchers:
            watcher.stop()
            watcher.close()
        self._watchers = ()
        if self._watched is not None:
            self._watched.close()
            self._watched = None

    def _conclude(self, is_kept: bool) -> None:  # noqa: FBT001  the loop passes it on
        self.is_kept = is_kept
        self.close()
