"""What the truth server remembers of each request: plan and truth side by side.

All stamps are integer nanoseconds on CLOCK_MONOTONIC.
"""

import json
from collections import deque
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from harness.base.errors import SetupError

KEPT: Final = 50_000
PAGE: Final = 1000


@dataclass(kw_only=True)
class Entry:
    """One request.

    Attributes:
        number: from 1, in order of arrival.
        seed: the request's sampling seed.
        n_prompt: prompt tokens as this server counts them.
        arrival_ns: when its last byte had been read.
        n_in_flight: requests in the server then, this one included.
        planted_ttft_s: what the law gave it; None where it was refused.
        planted_itl_s: gap between its tokens by the law.
        token_ns: the real send time of each token, just before the write.
        done_ns: the same for the last byte of the answer; 0 before.
        n_blocked: tokens that found earlier bytes still unsent, so that their stamp is too early.
        status: HTTP status of the answer.
        body: the request's body, its texts as SHA-256.
        headers: its headers, credentials as their SHA-256.
    """

    number: int
    seed: int
    n_prompt: int
    arrival_ns: int
    n_in_flight: int
    planted_ttft_s: float | None = None
    planted_itl_s: float | None = None
    token_ns: list[int] = field(default_factory=list)
    done_ns: int = 0
    n_blocked: int = 0
    status: int = 200
    body: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


class Log:
    """The last requests in memory, all of them in a file where one is asked for."""

    def __init__(self, record: Path | None = None, kept: int = KEPT) -> None:
        """Open the record.

        Raises:
            SetupError: the file exists already or cannot be made.
        """
        self._entries: deque[Entry] = deque(maxlen=kept)
        self.n_requests = 0
        try:
            self._file = None if record is None else record.open("x", encoding="utf-8")
        except OSError as error:
            raise SetupError(
                f"--record {record}: {error.strerror}; name a new file in a folder that exists"
            ) from error

    def add(self, entry: Entry) -> None:
        """Remember a request from its arrival on."""
        self._entries.append(entry)
        self.n_requests += 1

    def end(self, entry: Entry) -> None:
        """Its answer is sent, or its client is gone."""
        if self._file is not None:
            self._file.write(json.dumps(asdict(entry)) + "\n")

    def page(self, after: int) -> dict[str, Any]:
        """Up to a thousand entries numbered above `after`, and how many requests there were."""
        first = self.n_requests - len(self._entries)
        start = max(0, after - first)
        chosen = [self._entries[i] for i in range(start, min(start + PAGE, len(self._entries)))]
        return {
            "n_requests": self.n_requests,
            "n_forgotten": first,
            "entries": [asdict(entry) for entry in chosen],
        }

    def flush(self) -> None:
        """Hand what was recorded to the operating system."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Write the rest of the record."""
        if self._file is not None:
            self._file.close()
