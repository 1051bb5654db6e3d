from tools.draw_statistics import draw_breaks, draw_intervals


def test_the_picture_of_breaks_shows_what_the_text_says() -> None:
    """The curve that bends is answered `none`, the one that steps `jump`, in its own gap."""
    bends, steps = draw_breaks().axes
    assert [axes.get_title() for axes in (bends, steps)] == ["answer: none", "answer: jump"]
    assert not bends.patches
    (strip,) = steps.patches
    across = strip.get_extents().transformed(steps.transData.inverted()).intervalx
    assert across[0] < 1000 < across[1]


def test_the_picture_of_intervals_marks_those_that_miss() -> None:
    """Forty intervals, a cross for each that misses, and no more of those than chance makes."""
    (axes,) = draw_intervals().axes
    marks = [line.get_marker() for line in axes.lines]
    assert marks.count("o") + marks.count("X") == 40
    assert 0 < marks.count("X") <= 6
