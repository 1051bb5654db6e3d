import pytest

from harness.report import quantity


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.129, "129 ms"),
        (0.0204, "20.4 ms"),
        (0.00123, "1.23 ms"),
        (0.00042, "420 \u00b5s"),
        (0.0, "0 ms"),
        (1.234, "1.23 s"),
        (123.4, "123 s"),
        (0.9996, "1000 ms"),
        (-0.05, "\u221250.0 ms"),
    ],
)
def test_duration(seconds: float, text: str) -> None:
    """A duration has three significant digits and a unit that suits it."""
    assert quantity.duration(seconds) == text


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((0.129, 0.121, 0.14), "129 ms (121\u2013140)"),
        ((0.118, 0.104, None), "118 ms (104\u2013?)"),
        ((0.118, None, 0.2), "118 ms (?\u2013200)"),
        ((0.118, None, None), "118 ms (?\u2013?)"),
        ((None, 0.118, None), "\u2265 118 ms"),
        ((None, None, 0.118), "\u2264 118 ms"),
        ((None, 0.1, 0.2), "100\u2013200 ms"),
        ((None, None, None), None),
        ((0.0204, 0.0001, 0.03), "20.4 ms (0.1\u201330.0)"),
    ],
)
def test_duration_interval(
    bounds: tuple[float | None, float | None, float | None], text: str | None
) -> None:
    """An open bound is a question mark or an at-least sign, never a number."""
    assert quantity.duration_interval(*bounds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1.48, "+148 %"), (-0.2, "\u221220 %"), (0.0, "0 %"), (0.035, "+3.5 %")]
)
def test_change(value: float, text: str) -> None:
    """A change carries its sign."""
    assert quantity.change(value) == text


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((1.48, 1.2, 1.71), "+148 % (+120 to +171 %)"),
        ((1.48, 1.2, None), "+148 % (at least +120 %)"),
        ((1.48, None, 1.71), "+148 % (at most +171 %)"),
        ((1.48, None, None), "+148 %"),
    ],
)
def test_change_interval(bounds: tuple[float, float | None, float | None], text: str) -> None:
    """Both bounds, one bound or none: what is open is not said."""
    assert quantity.change_interval(*bounds) == text


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((0.82, 0.75, 0.88), "82 % (75\u201388)"),
        ((0.02, -0.02, 0.05), "2 % (\u22122 to 5)"),
        ((0.55, 0.3, None), "55 % (30\u2013?)"),
        ((0.55, None, None), "55 %"),
        ((0.002, 0.001, 0.003), "0.20 % (0.10\u20130.30)"),
        ((None, None, None), None),
    ],
)
def test_share_interval(
    bounds: tuple[float | None, float | None, float | None], text: str | None
) -> None:
    """Shares are whole per cents unless all are small."""
    assert quantity.share_interval(*bounds) == text


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        ((0.45, 0.41, 0.5), "0.45 (0.41\u20130.50)"),
        ((1.0, 0.93, 1.07), "1.00 (0.93\u20131.07)"),
        ((25.0, 20.0, None), "25 (20\u2013?)"),
        ((1.62, 1e-20, 6.3e20), "1.62 (?\u2013?)"),
        ((1.97, 0.4, 2279416.48), "1.97 (0.40\u2013?)"),
        ((None, None, None), None),
    ],
)
def test_ratio_interval(
    bounds: tuple[float | None, float | None, float | None], text: str | None
) -> None:
    """A ratio and its bounds have the same decimals; a bound beyond hundredfold says nothing."""
    assert quantity.ratio_interval(*bounds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(45.2, "45.2 s"), (192.4, "3 min 12 s"), (7500, "2 h 5 min")]
)
def test_long_duration(seconds: float, text: str) -> None:
    """A run's length is in the two largest units."""
    assert quantity.long_duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"), [(256, "256"), (0.5, "0.5"), (256.0, "256"), (True, "true"), ("x", "x")]
)
def test_factor_value(value: float | str, text: str) -> None:
    """A grid value looks as it does in the scenario."""
    assert quantity.factor_value(value) == text


def test_no_negative_zero() -> None:
    """What rounds to zero has no sign."""
    assert quantity.fixed(-0.001, 1) == "0.0"


def test_shared_unit_is_for_the_largest() -> None:
    """A column of mixed sizes keeps milliseconds until ten seconds."""
    names = [quantity.shared_unit(s).name for s in (0.0, 0.0004, 0.9, 9.0, 12.0)]
    assert names == ["ms", "\u00b5s", "ms", "ms", "s"]
