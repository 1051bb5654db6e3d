"""A board as one picture, for who has no Grafana: panels at their places, drawn by matplotlib.

Shows what the queries gave and where; interaction is Grafana's. Times are in UTC.
"""

from __future__ import annotations

import io
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from matplotlib import style
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from harness.export.board_axes import GRID, INK, MUTED
from harness.export.board_panels import draw_panel
from harness.export.board_queries import Answers, Json, Window

COLUMN_PX: Final = 56
LINE_PX: Final = 30
HEAD_PX: Final = 54
DPI: Final = 100
COLOURS: Final = 128
"""Of the file: lines and letters need no more, and it is a third as large."""
_LEGEND_PX: Final = {"timeseries": 64, "heatmap": 22, "state-timeline": 22, "table": 8, "stat": 4}
_LEFT_PX: Final = {"timeseries": 54, "heatmap": 54, "state-timeline": 130, "table": 10, "stat": 6}


def draw_board(board: Json, answers: Answers, window: Window) -> Figure:
    """The whole board."""
    lines = max(p["gridPos"]["y"] + p["gridPos"]["h"] for p in board["panels"])
    width, height = 24 * COLUMN_PX, lines * LINE_PX + HEAD_PX
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI, facecolor="#f4f5f7")
    FigureCanvasAgg(figure)
    _head(figure, board, window, height)
    for panel in board["panels"]:
        at = panel["gridPos"]
        x, y = at["x"] * COLUMN_PX, height - HEAD_PX - (at["y"] + at["h"]) * LINE_PX
        if panel["type"] == "row":
            figure.text(12 / width, (y + 8) / height, panel["title"], fontsize=11, color=INK)
            continue
        w, h = at["w"] * COLUMN_PX, at["h"] * LINE_PX
        box = ((x + 4) / width, (y + 3) / height, (w - 8) / width, (h - 6) / height)
        figure.add_artist(
            Rectangle(
                box[:2], *box[2:], facecolor="white", edgecolor=GRID, linewidth=0.8, zorder=-1
            )
        )
        kind = panel["type"]
        left, low = _LEFT_PX[kind] + 6, _LEGEND_PX[kind] + 8
        axes = figure.add_axes(
            (
                (x + left) / width,
                (y + low) / height,
                (w - left - 18) / width,
                (h - low - 30) / height,
            )
        )
        figure.text(
            (x + 12) / width, (y + h - 18) / height, panel["title"], fontsize=9, color=INK,
            fontweight="bold",
        )  # fmt: skip
        axes.set_facecolor("white")
        mine = {ref: series for (number, ref), series in answers.items() if number == panel["id"]}
        draw_panel(axes, panel, mine, window)
    return figure


def write_picture(board: Json, answers: Answers, window: Window, path: Path) -> None:
    """Draw a board into a PNG file."""
    plain = {"font.size": 9, "text.parse_math": False}
    with style.context(["default", plain]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        whole = io.BytesIO()
        draw_board(board, answers, window).savefig(whole, format="png")
    Image.open(whole).convert("RGB").quantize(COLOURS).save(path, "PNG", optimize=True)


def _head(figure: Figure, board: Json, window: Window, height: int) -> None:
    shown = " to ".join(
        f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S}" for at in (window.start, window.end)
    )
    figure.text(0.009, 1 - 24 / height, board["title"], fontsize=14, color=INK, va="center")
    told = "".join(f"   {each['label']}: {each['current']['text']}" for each in _chosen(board))
    figure.text(0.009, 1 - 43 / height, f"{shown} UTC{told}", fontsize=8, color=MUTED, va="center")


def _chosen(board: Json) -> list[Json]:
    """What narrows or shapes the queries: of the choices at the top, those that are not all."""
    return [
        each
        for each in board["templating"]["list"]
        if each["type"] == "custom" and "$__all" not in each["current"]["value"]
    ]
