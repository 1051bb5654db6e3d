"""Points of time in words that commands take back: ISO, UTC, whole seconds."""

from datetime import UTC, datetime


def utc(unix_s: float) -> str:
    """`2026-01-31T12:00:00Z`."""
    return f"{datetime.fromtimestamp(unix_s, UTC):%Y-%m-%dT%H:%M:%SZ}"


def utc_span(span: tuple[float, float]) -> str:
    """`2026-01-31T12:00:00Z to 2026-01-31T12:05:00Z`."""
    return f"{utc(span[0])} to {utc(span[1])}"
