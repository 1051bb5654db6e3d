import base64
import hashlib
import json
import re
from itertools import pairwise
from pathlib import Path

import pytest
from pydantic import ValidationError

from harness.report.html import VERDICT_TONES, render_html, report_json, verdict_parts, write_report
from harness.report.schema import Estimate, Report, Verdict
from tests.unit.report.make_report import make_cell, make_hard_report, make_jump, make_report
from tests.unit.report.pages import REPORTS, empty_report, html_of
from tests.unit.report.read_page import Page

OUTSIDE = re.compile(r"https?:|//[a-z]|\bsrc\s*=|url\(|@import|\bping\s*=|srcset", re.IGNORECASE)


@pytest.fixture(scope="module", params=list(REPORTS))
def html(request: pytest.FixtureRequest) -> str:
    """Each kind of report as a page."""
    return html_of(request.param)


@pytest.fixture(scope="module")
def page(html: str) -> Page:
    """The page, read."""
    return Page(html)


def test_two_renders_are_the_same_bytes() -> None:
    """The page depends on the report alone."""
    assert render_html(make_hard_report()) == html_of("hard")


def test_nothing_of_this_machine_or_day_is_in_the_page(html: str) -> None:
    """Neither matplotlib's version nor a date of drawing nor a path gets in."""
    assert "matplotlib" not in html.lower().replace("matplotlib.org", "matplotlib")
    assert str(Path.cwd()) not in html


def test_the_users_matplotlib_settings_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader's own matplotlibrc changes no byte."""
    import matplotlib as mpl

    before = html_of("quickstart")
    monkeypatch.setitem(mpl.rcParams, "lines.linewidth", 9.0)
    monkeypatch.setitem(mpl.rcParams, "font.size", 30.0)
    assert render_html(make_report()) == before
    assert mpl.rcParams["font.size"] == 30.0


def test_every_tag_closes(page: Page) -> None:
    """The page is well-formed."""
    assert page.unclosed == []


def test_ids_are_unique(page: Page) -> None:
    """Every element id, permalinks of cells among them, occurs once."""
    assert [name for name, n in page.ids.items() if n > 1] == []


def test_links_inside_lead_somewhere(page: Page) -> None:
    """Each link, label and description inside the page has its target."""
    wanted = {a["href"][1:] for a in page.all("a") if a["href"].startswith("#")}
    for _, attributes in page.elements:
        for name in ("aria-labelledby", "aria-describedby"):
            wanted |= set(attributes.get(name, "").split())
        wanted |= {attributes["href"][1:]} if attributes.get("href", "").startswith("#") else set()
    assert wanted - set(page.ids) == set()


def test_every_cell_has_its_permalink() -> None:
    """The row of cell c03 is #cell-c03, and the map and the table link to it."""
    html = html_of("grid")
    assert '<tr id="cell-c03"' in html
    assert html.count('href="#cell-c03"') == 1 + 8 + 1  # map, comparison, its own row


def test_a_row_leads_back_to_its_square() -> None:
    """Map and table link to each other, and the square says value and interval."""
    page = Page(html_of("grid"))
    links = {a["href"]: a for a in page.all("a")}
    assert page.ids["map-cell-c03"] == 1
    assert "TTFT P99 22.5 ms (21.1" in next(
        a["title"] for a in page.all("a") if a["href"] == "#cell-c03"
    )
    assert links["#map-cell-c03"]["class"] == "to-map"
    assert "#map-cell-c03" not in html_of("quickstart")


def test_same_ids_still_get_permalinks_of_their_own() -> None:
    """Two cells of one id, which no run makes, do not break the page."""
    cell = make_report().cells[0]
    ids = Page(render_html(make_report(cells=[cell, cell], breakpoints=[], comparison=None))).ids
    assert ids["cell-c00"] == ids["cell-c00-2"] == 1


def test_nothing_is_loaded(html: str) -> None:
    """No address to load from: only the target's own text and the policy look like one."""
    text = html.replace("http://127.0.0.1:8100", "").replace("http://www.w3.org", "")
    text = re.sub(r'clip-path="url\(#[\w-]+\)"', "", text)
    text = re.sub(r"<script>.*</script>", "", text, flags=re.DOTALL)
    assert OUTSIDE.findall(text) == []


def test_the_script_makes_no_request(html: str) -> None:
    """The one script neither fetches nor evaluates."""
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    words = r"\bfetch\b|XMLHttp|WebSocket|import\(|\beval\b|innerHTML|new Function|document\.write"
    assert not re.search(words, script)


def test_policy_allows_this_script_only(html: str) -> None:
    """The content security policy names the hash of the script, and nothing may be loaded."""
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(
        m["content"]
        for m in Page(html).all("meta")
        if m.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none';")
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    assert not re.search(r"\son\w+\s*=", re.sub(r"<script.*?</script>", "", html, flags=re.DOTALL))


def test_verdict_comes_first(page: Page) -> None:
    """The first heading is the verdict's word, and it is the only one of its level."""
    headings = [tag for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert headings[0] == "h1"
    assert headings.count("h1") == 1


def test_headings_skip_no_level(page: Page) -> None:
    """A heading is at most one level below the one before."""
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_landmarks(page: Page) -> None:
    """Header, navigation, main and footer are there, and a link skips to the verdict."""
    tags = [tag for tag, _ in page.elements]
    assert {"header", "nav", "main", "footer"} <= set(tags)
    assert page.all("a")[0] == {"class": "skip", "href": "#verdict"}
    assert page.all("html")[0]["lang"] == "en"


def test_tables_have_captions_and_scopes(page: Page) -> None:
    """Each table has a caption and each of its headings says what it is the heading of."""
    assert len(page.all("caption")) == len(page.all("table")) > 0
    assert all(th.get("scope") in {"row", "col", "colgroup"} for th in page.all("th"))


def test_initial_order_is_marked() -> None:
    """One column of the full table says that it is the order shown."""
    heads = Page(html_of("quickstart")).all("th")
    assert [head["aria-sort"] for head in heads if "aria-sort" in head] == ["ascending"]


def test_pictures_have_a_title_and_a_description(html: str) -> None:
    """Each picture is an image with a name, and decoration is hidden from screen readers."""
    for svg in re.findall(r"<svg [^>]*>", html):
        assert 'role="img"' in svg or 'aria-hidden="true"' in svg
    charts = re.findall(r'<svg class="chart .*?</svg>', html, re.DOTALL)
    assert all("<title id=" in chart and "<desc id=" in chart for chart in charts)


def test_status_is_said_in_word_icon_and_colour() -> None:
    """Every status has a word and a tone; the tone is never alone."""
    for status in VERDICT_TONES:
        html = render_html(empty_report().model_copy(
            update={"verdict": Verdict(status=status, text="So.")}))  # fmt: skip
        heading = re.search(r"<h1.*?</h1>", html, re.DOTALL)
        assert heading is not None
        assert '<svg class="icon"' in heading.group()
        assert re.sub(r"<svg.*?</svg>|<[^>]+>", "", heading.group(), flags=re.DOTALL).strip()


def test_sections_stand_in_the_agreed_order() -> None:
    """Verdict, validity, map, curves, phases, comparison, table, caveats, reproduce."""
    html = html_of("grid")
    names = ["verdict", "validity", "map", "curves", "phases", "comparison", "table", "caveats"]
    places = [html.index(f'id="{name}"') for name in [*names, "reproduce"]]
    assert places == sorted(places)


def test_a_single_axis_has_no_map() -> None:
    """With one numeric axis the curve says it all."""
    assert 'id="map"' not in html_of("quickstart")


def test_size() -> None:
    """The quickstart's page is below 400 KB."""
    assert len(html_of("quickstart").encode()) < 400_000


def test_size_of_five_hundred_cells() -> None:
    """A grid of 500 cells on both paths stays below 5 MB."""
    cells = [
        make_cell(
            f"c{i:03d}",
            {"prompt_tokens": 16 * (i // 20 + 1), "cot_depth": i // 2 % 10,
             "accelerated": i % 2 == 1},
            0.02 + 0.0003 * i,
            caveats=["a doubt about this cell, said at some length so that it takes room"] * 5,
        )
        for i in range(500)
    ]  # fmt: skip
    jumps = [make_jump(at={"accelerated": False, "cot_depth": depth}) for depth in range(10)]
    html = render_html(make_report(cells=cells, breakpoints=jumps, comparison=None))
    assert len(html.encode()) < 5_000_000
    assert html.count('<tr id="cell-') == 500


def test_open_bounds_are_said() -> None:
    """An open bound reads as such, with how many requests more would close it."""
    text = re.sub(r"\s+", " ", Page(html_of("hard")).visible_text())
    assert "\u2265 118" in text
    assert "(52.0\u2013?)" in text
    assert "needs 265 more" in text


def test_undefined_is_a_dash_with_its_reason() -> None:
    """What is null is a dash that says why to eyes and to screen readers."""
    html = html_of("hard")
    assert 'title="TTFT P99: no request completed"' in html
    assert "undefined: TTFT P99: no request completed" in html
    assert "None" not in Page(html).visible_text()
    assert not re.search(r"\b(nan|inf|null)\b", Page(html).visible_text(), re.IGNORECASE)


def test_a_grid_of_one_path_has_no_comparison() -> None:
    """No empty section and no link to it; where a path of two has no values it is said."""
    assert "#comparison" not in html_of("one path")
    assert 'id="comparison"' not in html_of("one path")
    assert "nothing to compare" in render_html(make_report(comparison=None))


def test_nan_is_refused_by_the_models() -> None:
    """A number that is none never reaches a report."""
    with pytest.raises(ValidationError):
        Estimate(value=float("nan"), low=None, high=None)
    with pytest.raises(ValidationError):
        Estimate(value=1.0, low=None, high=float("inf"))


def test_report_json_round_trip() -> None:
    """report.json read back is the same report."""
    report = make_hard_report()
    text = report_json(report)
    assert json.loads(text)["schema"] == 1
    assert Report.model_validate_json(text) == report


@pytest.mark.parametrize("name", list(REPORTS))
def test_the_download_is_the_report(name: str) -> None:
    """The JSON inside the page is report.json."""
    found = re.search(r'id="report-json">(.*?)</script>', html_of(name), re.DOTALL)
    assert found is not None
    assert json.loads(found.group(1)) == json.loads(report_json(REPORTS[name]()))


def test_write_report(tmp_path: Path) -> None:
    """Three files are written, all or nothing, and writing again changes nothing."""
    folder = tmp_path / "a" / "b"
    page = write_report(make_report(), folder)
    assert page == folder / "report.html"
    names = ["report.html", "report.json", "summary.md"]
    assert sorted(path.name for path in folder.iterdir()) == names
    before = [(folder / name).read_bytes() for name in names]
    write_report(make_report(), folder)
    assert [(folder / name).read_bytes() for name in names] == before
    assert b"\r" not in before[0]


def test_verdict_parts() -> None:
    """The cause stays with the finding it explains; an empty text is said to be missing."""
    text = "P99 breaks. Behind it: kv_wait. No SLO was given. It is faster."
    assert verdict_parts(text) == [
        "P99 breaks. Behind it: kv_wait.",
        "No SLO was given.",
        "It is faster.",
    ]
    assert verdict_parts("  ") == ["No verdict text was given."]


def test_the_guide_names_every_section() -> None:
    """docs/report.md explains each section by the heading it has on the page."""
    guide = (Path(__file__).parents[3] / "docs" / "report.md").read_text(encoding="utf-8")
    headings = re.findall(r"<h2 [^>]*><a [^>]*>(.*?)</a>", html_of("grid"))
    assert len(headings) == 8
    assert "## Step by step" in guide
    assert [heading for heading in headings if heading not in guide] == []
