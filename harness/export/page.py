"""A page of metrics put together from pieces, each written once for every change of it.

Most cells of a run stand still while one is measured; writing their hundreds of buckets anew at
each scrape would cost more than everything else. prometheus-client writes every line; this module
only keeps what it wrote. A family's lines stay together, as both formats require.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Final, NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

END: Final = b"# EOF\n"
Collect = Callable[[], Iterable[Family]]


class Piece(NamedTuple):
    """Part of a page.

    Attributes:
        key: names it.
        version: what it is written for; None is written anew each time.
        collect: gives its families.
    """

    key: Hashable
    version: Hashable | None
    collect: Collect


class _Written(NamedTuple):
    version: Hashable | None
    families: dict[str, tuple[bytes, bytes]]


class Page:
    """Remembers what was written of each piece, by format."""

    def __init__(self) -> None:
        self._written: dict[tuple[str, Hashable], _Written] = {}

    def write(self, pieces: Iterable[Piece], accept: str) -> tuple[bytes, str]:
        """The page in the format that `accept` asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        heads: dict[str, bytes] = {}
        bodies: dict[str, list[bytes]] = {}
        for piece in pieces:
            for name, (head, body) in self._piece(piece, encode, content_type).items():
                heads.setdefault(name, head)
                bodies.setdefault(name, []).append(body)
        text = b"".join(head + b"".join(bodies[name]) for name, head in heads.items())
        return text + (END if "openmetrics" in content_type else b""), content_type

    def _piece(
        self, piece: Piece, encode: Callable[[Any], bytes], content_type: str
    ) -> dict[str, tuple[bytes, bytes]]:
        key = content_type, piece.key
        known = self._written.get(key)
        if known is None or piece.version is None or known.version != piece.version:
            families = {each.name: split(encode(One(each))) for each in piece.collect()}
            known = self._written[key] = _Written(piece.version, families)
        return known.families


class One:
    """A registry of one family, for prometheus-client to write."""

    def __init__(self, family: Family) -> None:
        self._family = family

    def collect(self) -> Iterator[Family]:
        """The family."""
        yield self._family


def split(text: bytes) -> tuple[bytes, bytes]:
    """A family's comment lines, and its samples without the end mark."""
    lines = text.removesuffix(END).splitlines(keepends=True)
    n_comments = sum(line.startswith(b"# ") for line in lines)
    return b"".join(lines[:n_comments]), b"".join(lines[n_comments:])
