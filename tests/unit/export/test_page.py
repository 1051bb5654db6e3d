"""A page put together from pieces says what prometheus-client says of all at once."""

from collections.abc import Iterator
from functools import partial

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Exemplar

from harness.export.family import Point, families
from harness.export.page import Page, Piece
from harness.metrics.catalogue.load import CHUNKS, LOAD_REQUESTS, LOAD_TTFT, USERS

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


def test_series_that_come_and_go_are_written_as_they_are() -> None:
    """New label values, fewer samples, an exemplar: each version reads as if it were the first."""
    traced = Exemplar({"trace_id": "ab" * 16}, 0.01, 8.5)
    versions = [
        {LOAD_REQUESTS: [Point((*CELL, "ok"), 1)]},
        {LOAD_REQUESTS: [Point((*CELL, "ok"), 2), Point((*CELL, "reset"), 1)]},
        {LOAD_REQUESTS: [Point((*CELL, "ok"), 3), Point((*CELL, "cut"), 4)], USERS: [Point((), 2)]},
        {USERS: [Point((), 2.5)]},
        {LOAD_TTFT: [Point(CELL, 3, "_bucket", "0.1", traced), Point(CELL, 3, "_bucket", "+Inf")]},
        {LOAD_TTFT: [Point(CELL, 3, "_bucket", "0.1"), Point(CELL, 4, "_bucket", "+Inf", traced)]},
    ]
    for accept in ("", OPENMETRICS):
        page = Page()
        for version, points in enumerate(versions):
            piece = Piece("c00", version, partial(families, points))
            written, _ = page.write([piece], accept)
            assert written == choose_encoder(accept)[0](Whole(list(families(points))))
            assert (b"# {trace_id=" in written) == (LOAD_TTFT in points and bool(accept))
