"""How long an exporter stays after its run: by the scrapes it has seen, at most two minutes."""

import pytest

from harness.export.linger import Linger


def linger(*scrapes_s: float, end_s: float = 100.0) -> Linger:
    found = Linger()
    for at_s in scrapes_s:
        found.note_scrape(at_s)
    found.note_end(end_s)
    return found


def test_a_run_that_goes_on_is_not_over() -> None:
    """However many scrapes came, or none: without an end the page stays."""
    found = Linger()
    assert not found.is_over(1e9)
    found.note_scrape(1.0)
    found.note_scrape(2.0)
    found.note_scrape(3.0)
    assert not found.is_over(1e9)


def test_two_scrapes_after_the_end_are_enough() -> None:
    """The last values are taken twice, then the page may go."""
    found = linger(90, 95)
    found.note_scrape(100.5)
    assert not found.is_over(100.5)
    found.note_scrape(105.5)
    assert found.is_over(105.5)


@pytest.mark.parametrize(
    ("scrapes_s", "stays_s"),
    [
        ((), 0),  # nobody has ever asked
        ((99,), 31),  # one scrape: the usual 15 s
        ((90, 95), 11),
        ((50, 60, 90, 91), 61),  # the longest gap counts
        ((0, 100), 121),  # at most a minute each
    ],
)
def test_a_scraper_that_is_gone_is_not_waited_for_ever(
    scrapes_s: tuple[float, ...], stays_s: float
) -> None:
    """Two intervals and a second after the end nobody will come any more."""
    found = linger(*scrapes_s)
    assert found.is_over(100 + stays_s + 0.01)
    assert stays_s == 0 or not found.is_over(100 + stays_s - 0.01)
