"""The boards, one a file, in the order of their links."""

from __future__ import annotations

from typing import Final

from dashboards.boards import gpu, nightly, run, server
from dashboards.model import Board

BOARDS: Final[tuple[Board, ...]] = (run.BOARD, server.BOARD, gpu.BOARD, nightly.BOARD)
