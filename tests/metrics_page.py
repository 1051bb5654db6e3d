"""A real HTTP server whose metrics page the test sets, also to an error status or to nothing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from tests.small_server import serving


@dataclass
class MetricsPage:
    """What the server answers now.

    Attributes:
        text: the page.
        status: its HTTP status.
        url: where it is.
        paths: what was asked for.
        keys: the Authorization header of each request, or None.
    """

    text: str = ""
    status: int = 200
    url: str = ""
    paths: list[str] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)


@contextmanager
def metrics_page(text: str = "") -> Iterator[MetricsPage]:
    """The server, as long as the block."""
    page = MetricsPage(text=text)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            page.paths.append(self.path)
            page.keys.append(self.headers.get("Authorization"))
            body = page.text.encode()
            self.send_response(page.status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as url:
        page.url = url
        yield page
