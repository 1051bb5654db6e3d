import re
from xml.etree import ElementTree as ET

import pytest

from harness.report import curve, grid, phase_bars
from harness.report.curve_axes import Size
from harness.report.palette import ROLES
from harness.report.schema import Cell, Report
from harness.report.svg import drawing, inline
from tests.unit.report.make_report import (
    make_cell,
    make_grid_report,
    make_hard_report,
    make_jump,
    make_report,
)
from tests.unit.report.pages import REPORTS, html_of


def _charts(name: str) -> list[str]:
    return re.findall(r'<svg class="chart .*?</svg>', html_of(name), re.DOTALL)


def _curve(report: Report, width: float = 1040) -> str:
    facet = grid.facets(report, report.analysis.axis)[0]
    size = Size(width, 430, has_line_labels=width > 500)
    with drawing():
        figure = curve.draw_curve(facet, "ttft_s", "p99", size, [facet])
        return inline(figure, name="c", title="t", description="d", css_class="wide")


def _texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).iter() if "text" in element.tag]


@pytest.mark.parametrize("name", list(REPORTS))
def test_pictures_use_the_page_colours_only(name: str) -> None:
    """No fixed colour and no fixed font is left: both themes draw the same picture."""
    for chart in _charts(name):
        assert not re.search(r"#[0-9a-f]{6}\b", re.sub(r"<(title|desc|text)[^>]*>[^<]*", "", chart))
        assert "font-family" not in chart
        assert set(re.findall(r"var\(--([\w-]+)\)", chart)) <= set(ROLES)


@pytest.mark.parametrize("name", list(REPORTS))
def test_letters_are_text_inside_the_picture(name: str) -> None:
    """Text stays text, and each letter stands inside the box of its picture."""
    for chart in _charts(name):
        root = ET.fromstring(chart)
        assert list(root.iter("text"))
        _, _, width, height = map(float, root.attrib["viewBox"].split())
        for text in root.iter("text"):
            style = dict(part.split(":") for part in text.attrib["style"].split(";"))
            size = float(style["font-size"].removesuffix("px"))
            reach = 0.56 * size * len(text.text or "")
            shift = {"middle": -0.5, "end": -1.0}.get(style.get("text-anchor", ""), 0.0)
            left = float(text.attrib["x"]) + shift * reach
            assert left >= -2, text.text
            assert left + reach <= width + 2, text.text
            assert 0 <= float(text.attrib["y"]) <= height, text.text
            assert size >= 10.5


@pytest.mark.parametrize("name", ["quickstart", "hard", "grid"])
def test_both_widths_are_drawn(name: str) -> None:
    """A wide picture has its narrow twin, drawn anew for small screens and not shrunk."""
    charts = [chart.split(">")[0] for chart in _charts(name)]
    wide = sum('class="chart wide"' in head for head in charts)
    assert wide == sum('class="chart narrow"' in head for head in charts) > 0
    narrow = [head for head in charts if 'class="chart wide"' not in head]
    assert all(re.search(r'viewBox="0 0 352 ', head) for head in narrow)


def test_break_is_named_where_it_lies() -> None:
    """The break's place and size are written in the picture."""
    assert "baseline jump 224\u2013256: +148 %" in _texts(_curve(make_report()))


def test_open_break_has_no_second_number() -> None:
    """An open end of a break's place is a question mark."""
    assert "baseline jump 224\u2013?: +148 %" in _texts(_curve(make_hard_report()))


def test_gradual_draws_no_strip() -> None:
    """A gradual rise is not drawn as a break."""
    report = make_report(breakpoints=make_report().breakpoints[1:])
    assert not any("gradual" in text or "jump" in text for text in _texts(_curve(report)))


def test_axis_is_linear_when_short_and_logarithmic_when_long() -> None:
    """Prompts from 64 to 368 stand at equal distances, from 16 to 16384 at equal ratios."""

    def places(prompts: list[int]) -> list[float]:
        cells = [make_cell(f"c{p}", {"prompt_tokens": p}, 0.05) for p in prompts]
        svg = _curve(make_report(cells=cells, breakpoints=[], comparison=None))
        wanted = {str(p) for p in prompts}
        return [
            float(text.attrib["x"])
            for text in ET.fromstring(svg).iter("text")
            if text.text in wanted
        ]

    first, second, third = places([100, 200, 300])
    assert abs((third - second) - (second - first)) < 0.5
    first, second, third = places([16, 512, 16384])
    assert abs((third - second) - (second - first)) < 0.5


def test_an_invalid_cell_is_hollow_and_grey() -> None:
    """A cell that cannot support a finding is drawn so."""
    cells = list(make_report().cells)
    cells[12] = cells[12].model_copy(update={"state": "invalid-client"})
    sound = _curve(make_report())
    doubtful = _curve(make_report(cells=cells))
    assert "fill:var(--paper);stroke:var(--muted)" not in sound
    assert "fill:var(--paper);stroke:var(--muted)" in doubtful


def test_description_tells_the_curve() -> None:
    """The picture's description holds the numbers and the sentence of the break."""
    report = make_report()
    facet = grid.facets(report, "prompt_tokens")[0]
    said = curve.describe(facet, "ttft_s", "p99")
    assert "baseline, by prompt_tokens: 64: 20.0 ms, 128: 36.0 ms" in said
    assert "jumps by +148 %" in said


def test_small_phases_are_folded() -> None:
    """Only phases of 2 % and more of some cell have a colour; bars still add up."""
    cells = list(make_report().cells)
    colours = phase_bars.choose_colours(cells)
    assert "detokenize" not in colours.roles
    assert {"kv_wait", "attention", "ffn", "other"} <= set(colours.roles)
    assert len(set(colours.roles.values())) == len(colours.roles) <= 8
    for cell in cells:
        whole = sum(cell.phases_tail_s.values())
        assert abs(sum(colours.split(cell.phases_tail_s).values()) - whole) < 1e-12


def test_phase_colours_are_the_same_in_every_report() -> None:
    """Waiting for KV memory has its colour whatever else is drawn."""
    few = [cell_with({"kv_wait": 1.0})]
    many = [cell_with({"kv_wait": 1.0, "attention": 2.0, "a": 3.0, "b": 3.0, "c": 1.0})]
    roles = [phase_bars.choose_colours(cells).roles for cells in (few, many)]
    assert roles[0]["kv_wait"] == roles[1]["kv_wait"] == "phase-0"


def cell_with(phases: dict[str, float]) -> Cell:
    """A cell with these phases."""
    return make_cell("c00", {"prompt_tokens": 64}, 0.05, phases_tail_s=phases)


def test_facets_share_the_scale() -> None:
    """Small multiples have the same y ticks, so that their heights compare."""
    charts = [c for c in _charts("grid") if 'viewBox="0 0 352 270"' in c.split(">")[0]]
    ticks = {tuple(t for t in _texts(c) if re.fullmatch(r"\d+", t) and int(t) % 50 == 0)
             for c in charts}  # fmt: skip
    assert len(charts) == 6
    assert len(ticks) == 1


def test_more_facets_than_room_are_counted() -> None:
    """Of many combinations those with breaks are drawn; the rest is said to be in the table."""
    report = make_grid_report()
    cells = [
        cell.model_copy(
            update={"id": f"{cell.id}-{k}", "factors": {**cell.factors, "temperature": k}}
        )
        for cell in report.cells
        for k in range(3)
    ]
    at = {"cot_depth": 4, "frequency_penalty": 0.5, "temperature": 2, "accelerated": False}
    found = make_grid_report(cells=cells, breakpoints=[make_jump(at=at)], comparison=None)
    from harness.report.charts import curve_sets

    with drawing():
        (shown,) = curve_sets(found)
    assert (len(shown.charts), shown.left_out) == (9, 9)
    assert "temperature 2" in shown.charts[-1].heading
