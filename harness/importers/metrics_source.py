"""One endpoint that serves metrics: asked once, it gives a page or says why not.

Whatever is no page (nobody there, an error status, an error page) is an error and never zeros.
"""

import math
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from harness.base.clock import Clock, SystemClock
from harness.base.errors import SetupError
from harness.importers.engines.canonical import Translated, detect_engine, translate
from harness.importers.metrics_text import Heads, NoMetrics, Page, read_metrics
from harness.load.client.endpoint import split_url
from harness.load.client.plain_http import PlainHttp

TIMEOUT_S: Final = 5.0
ALLOWED: Final = "allowed is http://HOST:PORT/PATH, all else than ASCII as %XX"
NEVER: Final = frozenset({401, 403, 404, 405, 501})
"""Answers that will be the same in a second."""


class NotServed(NoMetrics):
    """The endpoint has no metrics, or not for us."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What an endpoint said.

    Attributes:
        time_unix_ns: in the middle between asking and having it.
        page: its samples.
        translated: the same in canonical quantities; None where the server is of no known kind.
    """

    time_unix_ns: int
    page: Page
    translated: Translated | None

    def kind_of(self, name: str) -> str:
        """Type of a sample, declared or known better."""
        engine = self.translated.engine if self.translated is not None else None
        known = engine.kinds.get(name.replace(":", "_")) if engine is not None else None
        return known or self.page.kind_of(name)


class MetricsSource:
    """An endpoint and the connection to it."""

    def __init__(
        self, url: str, *, name: str = "", api_key: str | None = None, clock: Clock | None = None
    ) -> None:
        """Take the address apart; `/metrics` where it names no path.

        Raises:
            SetupError: no plain http URL.
        """
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise SetupError(f"got {url[:80]!r}: {error}; {ALLOWED}") from error
        if not parts.netloc or not parts.path.isascii() or not parts.query.isascii():
            raise SetupError(f"got {url.partition('?')[0][:80]!r}, {ALLOWED}")
        base = urlunsplit((parts.scheme, parts.netloc, "", "", ""))
        split_url(base)
        path = parts.path if parts.path.strip("/") else "/metrics"
        self.name = name or parts.netloc + ("" if path == "/metrics" else path)
        self.url = base + path
        self._query = f"?{parts.query}" if parts.query else ""
        self._path = path + self._query
        self._http = PlainHttp(base, api_key, timeout_s=TIMEOUT_S)
        self._clock: Clock = clock or SystemClock()
        self._heads: Heads = {}

    def ask(self) -> Answer:
        """One scrape; one that fails closes the connection.

        Raises:
            NotServed: there is none and will be none.
            NoMetrics: what came is no metrics page.
            SetupError: no answer.
        """
        try:
            return self._ask()
        except SetupError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _ask(self) -> Answer:
        before = self._clock.realtime_ns()
        body = self._get()
        now = (before + self._clock.realtime_ns()) // 2
        try:
            page = read_metrics(body, self._heads)
        except NoMetrics as error:
            raise NoMetrics(f"{self.url}: {error}") from error
        engine = detect_engine(page)
        translated = translate(page, engine) if engine is not None else None
        return Answer(time_unix_ns=now, page=page, translated=translated)

    def _get(self) -> bytes:
        try:
            reply = self._http.get(self._path)
        except SetupError as error:
            raise SetupError(str(error).replace(self._query, "")) from error  # may hold a secret
        if reply.status != 200:
            kind = NotServed if reply.status in NEVER else NoMetrics
            raise kind(f"{self.url}: HTTP status {reply.status}")
        return reply.body


def missing(answer: Answer) -> list[str]:
    """Canonical names that every server of this kind tells and this page does not."""
    if answer.translated is None:
        return []
    return [
        metric.name
        for metric in answer.translated.engine.required
        if metric.name not in answer.translated.origins
    ]


def number(value: float) -> float | None:
    """A sample's value; None where it is NaN: no value yet."""
    return None if math.isnan(value) else value
