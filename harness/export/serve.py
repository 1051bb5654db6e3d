"""The exporter process of one run: `python -m harness.export.serve RUN FD`.

Whoever runs the load starts it with a listening socket and a pipe as standard input. Lines of the
pipe name processes to watch (`load 1234`); its end is the end of the load, however that came. The
load process pays nothing for it: rows are read from the run folder, at each scrape.
"""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from harness.export.http_page import PageServer
from harness.export.linger import Linger
from harness.export.page import Page, Piece
from harness.export.process import ProcessCollector
from harness.export.process_tree import ProcessTree
from harness.export.run_watch import RunWatch
from harness.records.run import RunFolder

POLL_S: Final = 0.2
NICE: Final = 10
"""The load and the server come first."""
MAX_LINE: Final = 200
Seconds = Callable[[], float]


class RunPage:
    """The page of one run, written anew for each scrape; one thread at a time."""

    def __init__(self, watch: RunWatch, tree: ProcessTree, now: Seconds) -> None:
        self._watch = watch
        self._tree = tree
        self._processes = ProcessCollector(lambda: tree.watched(now()))
        self._now = now
        self._page = Page()
        self._linger = Linger()
        self._lock = threading.Lock()

    def write(self, accept: str) -> tuple[bytes, str]:
        """What a scrape is answered, and its content type."""
        with self._lock:
            self._watch.refresh()
            pieces = [*self._watch.pieces(), Piece("processes", None, self._processes.collect)]
            return self._page.write(pieces, accept)

    def answered(self) -> None:
        """A scrape has its answer."""
        with self._lock:
            self._linger.note_scrape(self._now())

    def add_process(self, name: str, pid: int) -> None:
        """Watch this process, too."""
        with self._lock:
            self._tree.add(name, pid)

    def end(self) -> None:
        """The load is over: count what it wrote last."""
        with self._lock:
            self._watch.is_up = False
            self._watch.refresh()
            self._linger.note_end(self._now())
            for name in self._watch.damaged:
                sys.stderr.write(f"{name}: damaged; not everything that it held was counted\n")

    @property
    def is_over(self) -> bool:
        """Whether nobody needs the page any more."""
        with self._lock:
            return self._linger.is_over(self._now())


def serve(run: RunFolder, listener: socket.socket, words: BinaryIO) -> None:
    """Serve until the load is over and its last values were taken."""
    page = RunPage(RunWatch(run), ProcessTree(), time.monotonic)
    page.add_process("exporter", os.getpid())
    server = PageServer(listener, page)
    page.write("")  # the first page imports and opens most of what there is
    print("ready", flush=True)  # noqa: T201  whoever started it waits for this
    threading.Thread(target=server.serve_forever, args=(POLL_S,), daemon=True).start()
    hear(words, page)
    page.end()
    while not page.is_over:
        time.sleep(POLL_S)


def hear(words: BinaryIO, page: RunPage) -> None:
    """Note each process that is named, until the words end."""
    while line := words.readline(MAX_LINE):
        name, _, pid = line.decode(errors="replace").strip().partition(" ")
        if name and pid.isdecimal():
            page.add_process(name, int(pid))


def main() -> None:
    """Serve the run that the command line names, on the socket it was given."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the load's; the pipe tells its end
    os.nice(NICE)
    folder, fd = sys.argv[1:]
    listener = socket.socket(fileno=int(fd))
    serve(RunFolder.open(Path(folder)), listener, sys.stdin.buffer)


if __name__ == "__main__":
    main()
