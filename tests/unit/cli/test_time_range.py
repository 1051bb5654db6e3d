"""Times as people write them, and what is no time."""

import time

import pytest
import typer

from harness.cli.time_range import read_range

NOW = 1_800_000_000.0


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("-15m..now", NOW - 900, NOW),
        ("-1.5h..-30s", NOW - 5400, NOW - 30),
        ("-2d..", NOW - 172_800, NOW),
        ("1799999000..1799999100.5", 1_799_999_000, 1_799_999_100.5),
        ("2027-01-15T08:00:00Z..2027-01-15T09:00:00+01:00", NOW, NOW),
        ("2027-01-15T07:00:00..2027-01-15T08:00:00", NOW - 3600, NOW),
    ],
)
def test_times_in_every_spelling(text: str, start: float, end: float) -> None:
    """Counted back, unix, ISO with a zone and without one (then UTC)."""
    if start == end:
        with pytest.raises(typer.BadParameter, match="before it has begun"):
            read_range(text, "--fault", NOW)
    else:
        assert read_range(text, "--fault", NOW) == (start, end)


def test_a_time_without_a_zone_is_utc_wherever_it_is_typed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The machine's own zone decides nothing."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "America/New_York")
        time.tzset()
        found = read_range("2027-01-15T07:00:00..2027-01-15T08:00:00", "--fault", NOW)
    time.tzset()
    assert found == (NOW - 3600, NOW)


@pytest.mark.parametrize("text", ["", "now", "a..b", "-15..now", "-5m", "1..2", "-1y..now", "9..."])
def test_what_is_no_time_is_told_with_what_is_allowed(text: str) -> None:
    """The option, what came and every spelling that is allowed."""
    with pytest.raises(typer.BadParameter, match="allowed is"):
        read_range(text, "--fault", NOW)
