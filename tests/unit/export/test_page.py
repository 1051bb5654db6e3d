"""A page put together from pieces says what prometheus-client says of all at once."""

from collections.abc import Iterator

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family

from harness.export.family import Point, families
from harness.export.page import Page, Piece
from harness.metrics.catalogue.load import CHUNKS, LOAD_REQUESTS, USERS

CELL = ("svc", "1", 'a "b"\\', "c00", "")
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


class Whole:
    """Everything in one registry."""

    def __init__(self, *parts: list[Family]) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Family]:
        """One family each, samples of all parts together."""
        found: dict[str, Family] = {}
        for family in (each for part in self._parts for each in part):
            known = found.setdefault(family.name, family)
            if known is not family:
                known.samples.extend(family.samples)
        yield from found.values()


def part(cell: str, n: int) -> list[Family]:
    labels = (*CELL[:3], cell, "")
    points = {CHUNKS: [Point(labels, n)], LOAD_REQUESTS: [Point((*labels, "ok"), n)]}
    return list(families(points))


def test_pieces_read_as_one_page_in_both_formats() -> None:
    """Families stay together under one head each, in the text format and in OpenMetrics."""
    for accept in ("", OPENMETRICS):
        encode, content_type = choose_encoder(accept)
        whole = encode(
            Whole(part("c00", 1), part("c01", 2), list(families({USERS: [Point((), 3)]})))
        )
        pieces = [
            Piece("c00", 1, lambda: part("c00", 1)),
            Piece("c01", 1, lambda: part("c01", 2)),
            Piece("run", None, lambda: families({USERS: [Point((), 3)]})),
        ]
        assert Page().write(pieces, accept) == (whole, content_type)


def test_a_piece_is_written_again_only_for_a_change() -> None:
    """The same version is not asked again; another version, another format and no version are."""
    asked: list[str] = []

    def piece(name: str, version: int | None) -> Piece:
        def collect() -> list[Family]:
            asked.append(name)
            return part(name, len(asked))

        return Piece(name, version, collect)

    page = Page()
    first, _ = page.write([piece("c00", 1)], "")
    assert page.write([piece("c00", 1)], "")[0] == first
    assert asked == ["c00"]
    assert page.write([piece("c00", 2)], "")[0] != first
    page.write([piece("c00", 2)], OPENMETRICS)
    assert asked == ["c00"] * 3
    for _ in range(2):
        page.write([piece("run", None)], "")
    assert asked == ["c00"] * 3 + ["run"] * 2
