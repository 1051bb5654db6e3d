"""A headless Chromium for tests, driven over its own pipe: no driver, no port, no network.

Speaks the browser's remote-debugging protocol on two inherited pipes, messages end with a zero
byte. Records console messages, exceptions and every request the page makes.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from select import select
from types import TracebackType
from typing import Any, Self

CHROMIUM = "/usr/bin/chromium"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
TIMEOUT_S = 30.0


def is_installed() -> bool:
    """Whether there is a Chromium to test with."""
    return Path(CHROMIUM).exists()


class Browser:
    """One Chromium process with one page."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.requests: list[str] = []
        self._events: list[str] = []
        self._last_id = 0
        self._session = ""
        self._buffer = b""
        self._profile = tempfile.mkdtemp(prefix="tailbreak-chromium-")
        self._process = self._start()
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        attached = self._call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process and remove its profile."""
        self._process.kill()
        self._process.wait()
        os.close(self._write_fd)
        os.close(self._read_fd)
        shutil.rmtree(self._profile, ignore_errors=True)

    def open(self, path: Path, *, width: int = 1280, height: int = 900, scheme: str = "light",
             media: str = "") -> None:  # fmt: skip
        """Load a file at a width, in light or dark, on screen or on paper."""
        self._call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("Emulation.setEmulatedMedia", media=media, features=features)
        self._events.clear()
        self._call("Page.navigate", url=path.resolve().as_uri())
        while "Page.loadEventFired" not in self._events:
            self._receive()

    def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression; an exception there is an error here."""
        answer = self._call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release one key, such as Tab."""
        code = {"Tab": 9, "Enter": 13}[key]
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self._call(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code=key,
                windowsVirtualKeyCode=code,
                **text,
            )

    def screenshot(self, path: Path) -> None:
        """The whole page as PNG."""
        answer = self._call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _start(self) -> subprocess.Popen[bytes]:
        from_us, self._write_fd = os.pipe()
        self._read_fd, to_us = os.pipe()
        # Chromium reads descriptor 3 and writes 4; both ends are moved out of the way of these.
        ends = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (from_us, to_us)]
        move = f'exec "$@" 3<&{ends[0]} 4>&{ends[1]}'
        flags = (*FLAGS, f"--user-data-dir={self._profile}", "about:blank")
        process = subprocess.Popen(
            ["/bin/bash", "-c", move, "chromium", CHROMIUM, *flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=ends,
        )
        for fd in (from_us, to_us, *ends):
            os.close(fd)
        return process

    def _call(self, method: str, **parameters: Any) -> Any:
        self._last_id += 1
        message: dict[str, Any] = {"id": self._last_id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write_fd, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last_id:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self) -> Any:
        while b"\0" not in self._buffer:
            ready, _, _ = select([self._read_fd], [], [], TIMEOUT_S)
            chunk = os.read(self._read_fd, 1 << 16) if ready else b""
            if not chunk:
                raise AssertionError(f"Chromium did not answer within {TIMEOUT_S} s")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: Any) -> None:
        self._events.append(method)
        if method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])
        elif method == "Log.entryAdded":
            self.messages.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.messages.append(str(parameters["args"]))
        elif method == "Runtime.exceptionThrown":
            self.messages.append(str(parameters["exceptionDetails"]))
