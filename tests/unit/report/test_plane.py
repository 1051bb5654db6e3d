import pytest

from harness.findings.finding import Estimate, Surface
from harness.report.charts import curve_sets, plane_charts
from harness.report.plane import Cut, build_plane, cut_of
from harness.report.svg import drawing
from tests.unit.report.make_report import (
    LEVEL,
    SURFACE,
    make_grid_report,
    make_report,
    make_surface,
    make_surface_report,
)

PLACE = ("prompt_tokens", "concurrency")


def test_even_grids_without_a_surface_need_no_plane() -> None:
    """One axis has none, and a full grid says it all in the map."""
    assert build_plane(make_report(), "p99") is None
    assert build_plane(make_grid_report(), "p99") is None


def test_a_refined_grid_has_every_cell_at_its_place() -> None:
    """Cells between the columns of the first grid are drawn where they were measured."""
    report = make_surface_report(breakpoints=[])
    plane = build_plane(report, "p99")
    assert plane is not None
    dots = {dot.cell.id: (dot.x, dot.y) for panel in plane.panels for dot in panel.dots}
    assert dots == {
        cell.id: (cell.factors["prompt_tokens"], cell.factors["concurrency"])
        for cell in report.cells
    }


def test_the_line_is_where_the_law_says() -> None:
    """At each x the line's y makes the product the level, and the bounds lie on either side."""
    plane = build_plane(make_surface_report(), "p99")
    assert plane is not None
    (cut,) = plane.panels[0].cuts
    for x in (64.0, 300.0, 620.0):
        y = cut.y_at(x, cut.level)
        assert y is not None
        assert x * y == pytest.approx(LEVEL)
    assert cut.low is not None
    assert cut.high is not None
    assert cut.low < cut.level < cut.high


def test_axes_are_not_swapped() -> None:
    """An exponent of 2 on the second axis bends the line by its root."""
    two = Estimate(value=2.0, low=2.0, high=2.0)
    bent = SURFACE.model_copy(update={"coefficients": {**SURFACE.coefficients, "concurrency": two}})
    cut = cut_of(bent, *PLACE, {})
    assert cut is not None
    assert cut.y_at(LEVEL / 16, cut.level) == pytest.approx(4.0)


def test_a_third_axis_is_a_slice() -> None:
    """With 4 of the third axis the level in the plane is a quarter; of 0 there is no line."""
    one = SURFACE.coefficients["concurrency"]
    three = Surface(form="product", axes=[*SURFACE.axes, "cot_depth"],
                    coefficients={**SURFACE.coefficients, "cot_depth": one})  # fmt: skip
    cut = cut_of(three, *PLACE, {"cot_depth": 4})
    assert cut is not None
    assert cut.level == LEVEL / 4
    assert cut_of(three, *PLACE, {"cot_depth": 0}) is None


def test_an_axis_aligned_surface_stands_upright_or_lies_flat() -> None:
    """On the first axis it has an x and no y; on the second a y at every x."""
    upright, flat = Cut(1.0, 0.0, 300.0, None, None), Cut(0.0, 1.0, 8.0, None, None)
    assert upright.x_of(300.0) == pytest.approx(300.0)
    assert upright.y_at(64.0, 300.0) is None
    assert flat.x_of(8.0) is None
    assert [flat.y_at(x, 8.0) for x in (1.0, 500.0)] == pytest.approx([8.0, 8.0])


def test_open_and_unknown_levels_are_no_numbers() -> None:
    """An open bound stays open; a level that is not known draws nothing."""
    for value, is_drawn in ((LEVEL, True), (None, False)):
        level = Estimate(value=value, low=None, high=None)
        surface = SURFACE.model_copy(
            update={"coefficients": {**SURFACE.coefficients, "level": level}}
        )
        cut = cut_of(surface, *PLACE, {})
        assert (cut is not None) == is_drawn
        assert cut is None or (cut.low, cut.high) == (None, None)


def test_a_surface_elsewhere_is_not_drawn_here() -> None:
    """A surface of another quantile belongs to no panel."""
    plane = build_plane(make_surface_report(breakpoints=[make_surface(q=0.5)]), "p99")
    assert plane is not None
    assert not any(panel.cuts for panel in plane.panels)


def test_a_surface_is_said_below_the_plane_and_not_below_each_curve() -> None:
    """Its sentence stands under the picture that shows it, once, and under no curve."""
    report = make_surface_report()
    with drawing():
        planes, curves = plane_charts(report), curve_sets(report)
    said = [caption for chart in planes for caption in chart.captions]
    assert len(said) == 1
    assert "= 2540 (2410 to 2660)" in said[0]
    assert not any(chart.captions for each in curves for chart in each.charts)
