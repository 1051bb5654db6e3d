"""The time that a board is looked at, and a Prometheus that answers its queries."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.base.clock import SystemClock
from harness.cli.time_range import read_range

if TYPE_CHECKING:
    from harness.export.board_queries import Ask, Query, Series, Window
    from harness.importers.prometheus_api import PrometheusApi

RANGE = Annotated[
    str | None,
    typer.Option(
        "--range",
        help="Time to look at: FROM..TO, each ISO, unix, now, or such as -15m; the board's own "
        "without.",
        metavar="T..T",
    ),
]


def board_window(board: dict[str, Any], text: str | None) -> "Window":
    """The range that was asked for, or else the one that the board starts with."""
    from harness.export.board_queries import Window

    now_s = SystemClock().realtime_ns() / 1e9
    own = f"{board['time']['from'].removeprefix('now')}..{board['time']['to']}"
    start, end = read_range(text or own, "--range", now_s)
    return Window(start=start, end=end)


def ask_of(api: "PrometheusApi", window: "Window") -> "Ask":
    """A function that asks a Prometheus about the window."""

    def ask(query: "Query") -> "Sequence[Series]":
        if query.is_instant:
            return api.query(query.promql, at=window.end)
        return api.query_range(
            query.promql, start=window.start, end=window.end, step_s=window.step_s
        )

    return ask
