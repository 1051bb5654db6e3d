import time

import pytest

from harness.report.text import glued, instant, line, sentences, slug, unique_slugs


def test_line_is_bounded_and_counts_what_it_leaves_out() -> None:
    """A long text is cut and says by how much."""
    assert line("a" * 1000, 10) == "aaaaaaaaaa\u2026 [990 more characters]"


def test_a_megabyte_is_cheap() -> None:
    """A text of a megabyte is cut without walking through it."""

    def best(text: str) -> float:
        times = []
        for _ in range(5):
            started = time.process_time()
            assert len(line(text)) < 340
            times.append(time.process_time() - started)
        return min(times)

    assert (
        best("<b>" * 3_500_000)
        < 5 * best("<b>" * 350_000) + time.get_clock_info("process_time").resolution
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\r\n\tc", "a b c"),
        ("a\u202eb\u2066c\u200f", "abc"),
        ("a\x00b\x1b[31m", "a\ufffdb\ufffd[31m"),
        ("\ud800x", "\ufffdx"),
        ("\u0645\u06cc\u200c\u062e", "\u0645\u06cc\u200c\u062e"),
        ("  ", ""),
    ],
)
def test_line_keeps_one_readable_line(text: str, shown: str) -> None:
    """Breaks become spaces; direction marks go; other control characters are made visible."""
    assert line(text) == shown


def test_slugs_are_distinct_and_plain() -> None:
    """Ids that look alike after cleaning still differ."""
    assert unique_slugs(["C 3", "c-3", "c3", "<script>", "\u4e2d", ""]) == [
        "c-3",
        "c-3-2",
        "c3",
        "script",
        "x",
        "x-2",
    ]


def test_slug_is_bounded() -> None:
    """A hostile id does not become a hostile anchor."""
    assert len(slug("a" * 10_000)) == 60


def test_instant() -> None:
    """An ISO instant in UTC reads as such; anything else stays as it is."""
    assert instant("2026-11-30T02:15:00+00:00") == "2026-11-30 02:15:00 UTC"
    assert instant("2026-11-30T02:15:00.25+02:00") == "2026-11-30 02:15:00 +02:00"
    assert instant("yesterday <b>") == "yesterday <b>"


def test_sentences() -> None:
    """Cut after a full stop before a capital, not inside numbers or ratios."""
    text = "P99 rose by 1.5 times. It is 2.3x. no more"
    assert sentences(text) == ["P99 rose by 1.5 times.", "It is 2.3x. no more"]


def test_glued() -> None:
    """A unit never starts a line."""
    assert glued("82 % of 5 ms in 3 steps") == "82\u00a0% of 5\u00a0ms in 3 steps"
