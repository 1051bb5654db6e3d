from hypothesis import given
from hypothesis import strategies as st

from harness.server.stop_scanner import StopScanner

PIECES = st.lists(st.text("ab.", max_size=4), max_size=12)
STOPS = st.lists(st.text("ab.", min_size=1, max_size=4), max_size=3).map(tuple)


@given(pieces=PIECES, stops=STOPS)
def test_stop_scanning_does_not_depend_on_the_pieces(
    pieces: list[str], stops: tuple[str, ...]
) -> None:
    """However text is cut, what is given out is the text before the stop that completes first."""
    scanner = StopScanner(stops)
    given_out = ""
    for piece in pieces:
        if scanner.has_stopped:
            break
        given_out += scanner.push(piece)
        assert not any(stop in given_out for stop in stops)
    if not scanner.has_stopped:
        given_out += scanner.finish()
    text = "".join(pieces)
    assert text.startswith(given_out)
    assert scanner.has_stopped == any(stop in text for stop in stops)
    if not scanner.has_stopped:
        assert given_out == text


def test_only_a_possible_beginning_is_held_back() -> None:
    """Text flows at once unless its end could become a stop text."""
    scanner = StopScanner(("END",))
    assert scanner.push("some text E") == "some text "
    assert scanner.push("x") == "Ex"
    assert scanner.push("EN") == ""
    assert scanner.push("D more") == ""
    assert scanner.has_stopped
