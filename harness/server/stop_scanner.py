"""Stop strings in text that comes in pieces."""

from __future__ import annotations


class StopScanner:
    """Finds stop strings in text that comes in pieces; holds back what may still become one."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""
        self.has_stopped = False

    def push(self, text: str) -> str:
        """Take a piece; return what is certain to be before any stop string."""
        if not self._stops:
            return text
        text = self._held + text
        places = [place for place in (text.find(stop) for stop in self._stops) if place >= 0]
        if places:
            self.has_stopped = True
            self._held = ""
            return text[: min(places)]
        n_held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - n_held :]
        return text[: len(text) - n_held]

    def finish(self) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
