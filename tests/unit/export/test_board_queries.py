"""A board's queries as they are asked, its values as they are told, and the picture of both."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.image import imread

from dashboards.boards import BOARDS
from harness.export.board_axes import without_host
from harness.export.board_picture import draw_board, write_picture
from harness.export.board_queries import Query, Window, answers_of, fill, name_of, queries_of
from harness.export.board_units import told

WINDOW = Window(start=1000.0, end=1600.0)
RUN = BOARDS[0].to_json()


@dataclass(frozen=True)
class Line:
    """A series."""

    labels: dict[str, str]
    times: tuple[float, ...]
    values: tuple[float, ...]


def test_nothing_of_grafana_is_left_in_a_query() -> None:
    """Every variable of every board is filled in."""
    for board in BOARDS:
        for query in queries_of(board.to_json(), WINDOW):
            assert "$" not in query.promql, query.title


def test_variables_choose_everything_or_what_the_board_starts_with() -> None:
    """Labels match all, a quantile is the one that is set, intervals follow the range."""
    by_title = {query.title: query for query in queries_of(RUN, WINDOW)}
    asked = by_title["TTFT over time"]
    assert asked.promql.startswith("histogram_quantile(0.99, sum by (le, path) (rate(")
    assert 'cell=~".*"' in asked.promql
    assert "[4000ms]" in asked.promql
    assert not asked.is_instant
    assert "[600000ms]" in by_title["TTFT ratio"].promql
    assert by_title["TTFT ratio"].is_instant


def test_a_rate_spans_four_scrapes_and_a_step() -> None:
    """Over a short range the scrapes decide, over a long one the step of the picture."""
    assert Window(start=0, end=60, scrape_s=2).intervals["__rate_interval"] == "8000ms"
    long = Window(start=0, end=2_592_000)
    assert (long.step_s, long.intervals["__rate_interval"]) == (10_800, "10801000ms")


def test_names_are_filled_from_labels() -> None:
    """A label that a series has not leaves nothing; an unknown variable stays as it is."""
    assert name_of("{{cell}} {{path}} x", {"cell": "c00"}) == "c00  x"
    assert fill("a$b$c", {"b": "1"}) == "a1$c"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0123, "s", "12.3 ms"), (2.5, "s", "2.5 s"), (4.2e-5, "s", "42 µs"), (0, "s", "0 s"),
        (0.5, "percentunit", "50 %"), (3 * 2**30, "bytes", "3 GiB"), (0, "bytes", "0 B"),
        (4.2e9, "Bps", "4.2GB/s"), (1.98e9, "hertz", "1.98GHz"), (1234567, "short", "1.23M"),
        (84, "short", "84"), (math.nan, "s", "n/a"), (math.inf, "short", "n/a"),
    ],
)  # fmt: skip
def test_values_are_told_with_their_unit(value: float, unit: str, text: str) -> None:
    """Three digits in the unit that fits; no number is no zero."""
    assert told(value, unit) == text


def _answer(query: Query) -> list[Line]:
    times = (1000.0, 1300.0) if not query.is_instant else (1600.0,)
    if query.title.endswith("all requests"):
        return [
            Line({"le": le}, (1000.0, 1300.0), (n, n))
            for le, n in (("0.1", 1.0), ("0.2", 3.0), ("+Inf", 3.0))
        ]
    labels = {"path": "baseline", "cell": "c00", "outcome": "ok", "process": "load", "pid": "7"}
    return [Line(labels, times, (1.0,) * len(times))]


def _texts(figure: Any) -> str:
    drawn = [text.get_text() for text in figure.texts]
    for axes in figure.axes:
        drawn += [text.get_text() for text in axes.texts]
    return "\n".join(drawn)


def test_every_panel_is_drawn_with_its_values() -> None:
    """Each title and the value of each kind of panel stand in the picture."""
    figure = draw_board(RUN, answers_of(RUN, WINDOW, _answer), WINDOW)
    texts = _texts(figure)
    for panel in RUN["panels"]:
        assert panel["title"] in texts
    assert "writing" in texts  # a mapped value
    assert "baseline  1 s" in texts  # a series with its last value
    assert "no data" not in texts
    lines = [line for axes in figure.axes for line in axes.lines]
    assert any(to_hex(line.get_color()) == "#0072b2" for line in lines)


def test_a_gap_is_drawn_as_a_gap() -> None:
    """Two scrapes that failed leave two steps without a value, and the line is broken there."""
    window = Window(start=1000.0, end=1010.0)
    times = tuple(t for t in window.times if t not in {1004.0, 1005.0})
    ask = {"Users": [Line({}, times, (16.0,) * len(times))]}
    figure = draw_board(RUN, answers_of(RUN, window, lambda q: ask.get(q.title, [])), window)
    (drawn,) = (line for axes in figure.axes for line in axes.lines)
    assert np.isnan(np.asarray(drawn.get_ydata())).tolist() == [4 <= n <= 5 for n in range(11)]


def test_names_lose_a_host_that_all_of_them_share() -> None:
    """One host's address is left out; two hosts keep theirs, and nothing becomes nameless."""
    assert without_host(["h:1 GPU 0", "h:1 GPU 1"]) == ["GPU 0", "GPU 1"]
    assert without_host(["h:1 GPU 0", "h:2 GPU 0"]) == ["h:1 GPU 0", "h:2 GPU 0"]
    assert without_host(["c00 baseline", "c00 accelerated"]) == ["c00 baseline", "c00 accelerated"]
    assert without_host(["h:1"]) == ["h:1"]
    assert without_host([]) == []


def test_empty_panels_say_so(tmp_path: Path) -> None:
    """Nothing that came is drawn as nothing, with the panel's own word, never as zero."""
    texts = _texts(draw_board(RUN, answers_of(RUN, WINDOW, lambda _: []), WINDOW))
    assert "no load exporter" in texts
    assert "no kernel stamps" in texts
    assert texts.count("no data") > 10
    assert "\n0\n" not in texts
    write_picture(RUN, {}, WINDOW, tmp_path / "run.png")
    assert imread(tmp_path / "run.png").shape[1] == 24 * 56


def test_numbers_that_are_none_are_drawn() -> None:
    """NaN and infinities, names that are markup, and more series than a legend holds do no harm."""
    nasty = "$x^2$ <b>{{" + "a" * 60

    def ask(query: Query) -> list[Line]:
        values = (math.nan, math.inf) if not query.is_instant else (math.nan,)
        times = (1000.0, 1300.0)[: len(values)]
        names = ("cell", "path", "outcome", "process", "instance", "gpu", "xid", "le")
        return [Line(dict.fromkeys(names, nasty + str(n)), times, values) for n in range(7)]

    for board in (BOARDS[0], BOARDS[2]):
        value = board.to_json()
        figure = draw_board(value, answers_of(value, WINDOW, lambda q: _no_le(ask(q))), WINDOW)
        figure.canvas.draw()


def _no_le(lines: list[Line]) -> list[Line]:
    return [Line({**line.labels, "le": "0.5"}, line.times, line.values) for line in lines]


def test_pictures_are_of_what_is_committed() -> None:
    """The picture reads a board's JSON, so that a board read from a file is drawn alike."""
    again = json.loads(json.dumps(RUN))
    assert _texts(draw_board(again, {}, WINDOW)) == _texts(draw_board(RUN, {}, WINDOW))
