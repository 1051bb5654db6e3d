"""`T0..T1` on the command line: two points of time, in the words people have them in."""

import re
from datetime import UTC, datetime
from typing import Final

import typer

ALLOWED: Final = (
    "allowed is FROM..TO, each an ISO time (2026-01-31T12:00:00Z; UTC where no zone is named), a "
    "unix time in seconds, now, or a time before it such as -15m (s, m, h, d)"
)
_BEFORE: Final = re.compile(r"-(\d{1,7}(?:\.\d{1,3})?)([smhd])", re.ASCII)
_UNIX: Final = re.compile(r"\d{9,11}(?:\.\d{1,9})?", re.ASCII)
_SECONDS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def read_range(text: str, option: str, now_s: float) -> tuple[float, float]:
    """Unix times of both ends; what counts back does so from `now_s`.

    Raises:
        typer.BadParameter: no range, or an empty one.
    """
    first, dots, last = text.partition("..")
    if not dots:
        raise typer.BadParameter(f"got {text[:80]!r}, {ALLOWED}", param_hint=option)
    start, end = (_time(part.strip(), text, option, now_s) for part in (first, last))
    if not start < end:
        raise typer.BadParameter(
            f"got {text[:80]!r}, which ends before it has begun; allowed is FROM before TO",
            param_hint=option,
        )
    return start, end


def _time(word: str, text: str, option: str, now_s: float) -> float:
    if word in {"now", ""}:
        return now_s
    if before := _BEFORE.fullmatch(word):
        return now_s - float(before[1]) * _SECONDS[before[2]]
    if _UNIX.fullmatch(word):
        return float(word)
    try:
        moment = datetime.fromisoformat(word)
    except ValueError as error:
        raise typer.BadParameter(f"got {text[:80]!r}, {ALLOWED}", param_hint=option) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
