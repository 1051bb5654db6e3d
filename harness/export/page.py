"""A page of metrics put together from pieces, each written only for a change, numbers apart.

Most cells of a run stand still while one is measured, and in that one nothing but numbers changes:
writing hundreds of label sets anew at each scrape would cost more than everything else. So what
prometheus-client writes before a sample's value is kept, and a piece whose version is the same is
kept whole. A family's lines stay together, as both formats require.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

END: Final = b"# EOF\n"
ZERO: Final = b"0.0"
to_text: Final[Callable[[float], str]] = floatToGoString
Collect = Callable[[], Iterable[Family]]
Encode = Callable[[Any], bytes]


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


class _Form(NamedTuple):
    """A family without its numbers: comments, then what comes before each sample's value."""

    series: list[tuple[str, dict[str, str]]]
    head: bytes
    prefixes: list[bytes]


class _Written(NamedTuple):
    version: Hashable | None
    families: dict[str, tuple[bytes, bytes]]


class Page:
    """Remembers what was written of each piece, by format."""

    def __init__(self) -> None:
        self._written: dict[Hashable, _Written] = {}
        self._forms: dict[Hashable, _Form] = {}

    def write(self, pieces: Iterable[Piece], accept: str) -> tuple[bytes, str]:
        """The page in the format that `accept` asks for, and its content type."""
        encode, content_type = choose_encoder(accept)
        parts: dict[str, list[bytes]] = {}
        for piece in pieces:
            for name, (head, body) in self._piece(piece, encode, content_type).items():
                parts.setdefault(name, [head]).append(body)
        end = [END] if "openmetrics" in content_type else []
        return b"".join(chain(*parts.values(), end)), content_type

    def _piece(
        self, piece: Piece, encode: Encode, content_type: str
    ) -> dict[str, tuple[bytes, bytes]]:
        key = content_type, piece.key
        known = self._written.get(key)
        if known is None or piece.version is None or known.version != piece.version:
            families = {each.name: self._family(key, each, encode) for each in piece.collect()}
            known = self._written[key] = _Written(piece.version, families)
        return known.families

    def _family(self, piece: Hashable, family: Family, encode: Encode) -> tuple[bytes, bytes]:
        """Comments and samples; what stands before the numbers is written for new series only."""
        key = piece, family.name
        form = self._forms.get(key)
        if form is None or form.series != [(each.name, each.labels) for each in family.samples]:
            form = self._forms[key] = _form(family, encode)
        lines: list[bytes] = [
            prefix + to_text(each.value).encode()
            for prefix, each in zip(form.prefixes, family.samples, strict=True)
        ]
        named = [i for i, each in enumerate(family.samples) if each.exemplar is not None]
        written = _lines(family, [family.samples[i] for i in named], encode)[1]
        for i, line in zip(named, written, strict=True):
            lines[i] = line
        return form.head, b"\n".join([*lines, b""])


def _form(family: Family, encode: Encode) -> _Form:
    bare = [Sample(each.name, each.labels, 0.0) for each in family.samples]
    head, lines = _lines(family, bare, encode)
    series = [(each.name, each.labels) for each in bare]
    return _Form(series, head, [line.removesuffix(ZERO) for line in lines])


def _lines(family: Family, samples: Sequence[Sample], encode: Encode) -> tuple[bytes, list[bytes]]:
    """The family's comments, and a line for each of these samples of it."""
    part = Family(family.name, family.documentation, family.type, family.unit)
    part.samples = list(samples)
    head, body = split(encode(One(part)))
    return head, body.split(b"\n")[:-1]


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
