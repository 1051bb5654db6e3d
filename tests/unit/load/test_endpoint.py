import pytest

from harness.base.errors import SetupError
from harness.load.client.endpoint import split_url
from harness.load.client.exchange import MAX_ERROR_CHARS, bounded


@pytest.mark.parametrize(
    "url",
    [
        *("http://", "x", "ftp://h", "http://[::1", "http://[]:1", "http://h:0", "http://h:99999"),
        *("http://" + "x" * 64, "http://a..b:1", "http://..", "http://" + "ä" * 70 + ".x"),
        *("http://a b", "http://h\x00", "http://h/a b", "http://h/ä", "http://h/\x7f"),
    ],
)
def test_what_no_request_can_carry_is_refused(url: str) -> None:
    """A URL that would fail later, inside a library, is told at once with what is allowed."""
    with pytest.raises(SetupError, match="http://host:port"):
        split_url(url)


@pytest.mark.parametrize("url", ["http://h", "http://[::1]:8000/v1", "http://ä.example:1/a%20b"])
def test_plain_urls_are_taken(url: str) -> None:
    """Names outside ASCII, IPv6 and escaped paths are no mistake."""
    assert split_url(url).hostname


def test_a_servers_words_cannot_steer_a_terminal() -> None:
    """Escape sequences and direction marks are replaced, lines joined, length bounded."""
    shown = bounded("a\x1b[31m\r\n b\u202e\x00" + "x" * 2000)
    assert shown.isprintable()
    assert shown.startswith("a\ufffd[31m b\ufffd\ufffdx")
    assert len(shown) == MAX_ERROR_CHARS
