"""A target's URL, taken apart and resolved once, so that no request waits for a name server."""

import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from harness.base.errors import SetupError


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """Where requests go.

    Attributes:
        family: AF_INET or AF_INET6.
        address: what `connect` takes.
        host_header: the Host header.
        base_path: prefix of every path, without a trailing slash.
        url: the URL as given, for messages.
    """

    family: int
    address: Any
    host_header: str
    base_path: str
    url: str


_CONNECT_TIMEOUT_S = 1.0


def resolve(url: str) -> Endpoint:
    """The endpoint behind an http URL; a trailing `/v1` is dropped, since paths carry it.

    Raises:
        SetupError: not an http URL, or the name is unknown.
    """
    parts = split_url(url)
    assert parts.hostname is not None
    port = parts.port or 80
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise SetupError(f"{url}: cannot find {parts.hostname}: {error.strerror}") from error
    family, _, _, _, address = _first_that_answers(found)
    base_path = parts.path.rstrip("/").removesuffix("/v1")
    return Endpoint(
        family=family, address=address, host_header=parts.netloc.rpartition("@")[2],
        base_path=base_path, url=url,
    )  # fmt: skip


def split_url(url: str) -> SplitResult:
    """The parts of a target's URL.

    Raises:
        SetupError: not a plain http URL of a host, or one that carries a secret.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        _require_plain(parts)
    except ValueError as error:
        raise SetupError(f"{url}: {error}; allowed is http://host:port, port 1 to 65535") from error
    if parts.scheme == "https":
        raise SetupError(
            f"{url}: this version speaks http:// only, TLS is not in it yet; "
            "give the server's plain address, such as http://127.0.0.1:8000"
        )
    if parts.username is not None or parts.query or parts.fragment:
        raise SetupError(
            "the target's URL carries credentials, a query or a fragment; allowed is "
            "http://host:port, optionally a path. A key goes into the environment variable that "
            "target.api_key_env names: URLs are kept in files"
        )
    if parts.scheme != "http" or not parts.hostname or port == 0:
        raise SetupError(f"{url}: got no http URL, allowed is http://host:port, optionally a path")
    return parts


def _require_plain(parts: SplitResult) -> None:
    """Require what fits into a request line and a name server's question.

    Raises:
        ValueError: a character or a label that no URL has.
    """
    if not parts.path.isascii() or not all(c.isprintable() and c != " " for c in parts.path):
        raise ValueError("the path has a space, a control character or one outside ASCII")
    host = parts.hostname or ""
    if not host.isprintable() or " " in host:
        raise ValueError("the host has a space or a control character")
    host.encode("idna")


def _first_that_answers(found: list[Any]) -> Any:
    """The first address that takes a connection (`localhost` has two), else the first."""
    for family, kind, protocol, _, address in found if len(found) > 1 else ():
        with socket.socket(family, kind, protocol) as sock:
            sock.settimeout(_CONNECT_TIMEOUT_S)
            if sock.connect_ex(address) == 0:
                return family, kind, protocol, "", address
    return found[0]
