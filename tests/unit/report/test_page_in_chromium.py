import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.report.browser import CHROMIUM, Browser, is_installed
from tests.unit.report.make_report import make_report
from tests.unit.report.pages import html_of
from tests.unit.report.test_hostile_text import ATTACKS, hostile_report

pytestmark = pytest.mark.skipif(not is_installed(), reason=f"no {CHROMIUM} to test with")

NAMES = ("quickstart", "grid", "hard", "surface")
CLIPPED = """
[...document.querySelectorAll("h1,h2,h3,p,li,dt,dd,figcaption,button,label,summary,svg.chart")]
  .filter((node) => node.checkVisibility() && !node.closest(".scroll,.unseen,.skip"))
  .map((node) => [node, node.getBoundingClientRect()])
  .filter(([node, box]) => box.width > 0 && (box.left < -1 || box.right > innerWidth + 1))
  .map(([node]) => node.outerHTML.slice(0, 120))
"""
OVERLAPS = """
[...document.querySelectorAll("svg.chart")].filter((svg) => svg.checkVisibility())
  .flatMap((svg) => {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")];
    const boxes = texts.map((node) => [node, node.getBoundingClientRect()]);
    const isOutside = (a) => a.left < frame.left - 2 || a.right > frame.right + 2;
    const isOn = (a, b) => a.left < b.right - 1 && b.left < a.right - 1
      && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    return boxes
      .filter(([, a], i) => isOutside(a) || boxes.slice(i + 1).some(([, b]) => isOn(a, b)))
      .map(([node]) => node.textContent);
  })
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One Chromium for all pages."""
    with Browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages as files."""
    path = tmp_path_factory.mktemp("pages")
    for name in NAMES:
        (path / f"{name}.html").write_text(html_of(name), encoding="utf-8")
    return path


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("name", NAMES)
def test_reads_well_at_both_widths(browser: Browser, folder: Path, name: str, width: int) -> None:
    """No sideways scrolling, no clipped block, no two labels of a picture on each other."""
    browser.open(folder / f"{name}.html", width=width)
    assert browser.evaluate("document.documentElement.scrollWidth") == width
    assert browser.evaluate(CLIPPED) == []
    assert browser.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_loads_without_a_word_and_without_a_request(
    browser: Browser, folder: Path, scheme: str
) -> None:
    """The console stays empty and only the file itself is read, in both themes."""
    browser.messages.clear()
    browser.requests.clear()
    path = folder / "quickstart.html"
    browser.open(path, scheme=scheme)
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 28)"}[scheme]
    assert browser.messages == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [path.as_uri()]


def test_narrow_screens_get_the_narrow_picture(browser: Browser, folder: Path) -> None:
    """At 400 px letters in pictures are at least 10 px tall, and each picture is shown once."""
    browser.open(folder / "quickstart.html", width=400)
    shown = '[...document.querySelectorAll("svg.chart")].filter((svg) => svg.checkVisibility())'
    assert browser.evaluate(f"{shown}.every((svg) => svg.classList.contains('narrow'))")
    scale = f"{shown}.map((svg) => svg.clientWidth / svg.viewBox.baseVal.width)"
    assert min(browser.evaluate(scale)) * 10.5 >= 10


def test_sorting(browser: Browser, folder: Path) -> None:
    """A heading sorts by number, up then down, says so, and leaves undefined values last."""
    browser.open(folder / "hard.html")
    column = (
        '[...document.querySelectorAll("#cells thead th")].find((th) => '
        'th.textContent.startsWith("TTFT P99"))'
    )
    order = '[...document.querySelectorAll("#cells tbody tr")].map((row) => row.id)'
    for direction, first in (("ascending", "cell-c00"), ("descending", "cell-c12")):
        browser.evaluate(f"{column}.querySelector('button').click()")
        assert browser.evaluate(f"{column}.getAttribute('aria-sort')") == direction
        ids = browser.evaluate(order)
        assert ids[0] == first
        assert ids[-1] == "cell-c02"
    sorts = (
        '[...document.querySelectorAll("#cells th[aria-sort]")].filter((th) => '
        'th.getAttribute("aria-sort") !== "none").length'
    )
    assert browser.evaluate(sorts) == 1


def test_sorting_by_keyboard(browser: Browser, folder: Path) -> None:
    """A heading can be reached and pressed without a mouse."""
    browser.open(folder / "quickstart.html")
    browser.evaluate('document.querySelector("#cells th button").focus()')
    browser.press("Tab")
    browser.press("Enter")
    sort = 'document.activeElement.closest("th").getAttribute("aria-sort")'
    assert browser.evaluate(sort) == "ascending"
    assert browser.evaluate('document.activeElement.textContent.includes("prompt_tokens")')
    assert browser.evaluate('document.activeElement.matches(":focus-visible")')


def test_filtering(browser: Browser, folder: Path) -> None:
    """Words, choices and the doubtful switch each narrow the table and say how far."""
    browser.open(folder / "hard.html")
    said = 'document.getElementById("shown").textContent'
    fire = "node.dispatchEvent(new Event(node.type === 'search' ? 'input' : 'change'))"
    assert browser.evaluate(said) == "14 of 14 cells"
    browser.evaluate(
        f'{{const node = document.getElementById("filter"); node.value = "baseline 256"; {fire}}}'
    )
    assert browser.evaluate(said) == "1 of 14 cells"
    browser.evaluate(f'{{const node = document.getElementById("filter"); node.value = ""; {fire}}}')
    browser.evaluate(
        f'{{const node = document.getElementById("doubtful"); node.checked = true; {fire}}}'
    )
    assert browser.evaluate(said) == "5 of 14 cells"


def test_a_permalink_shows_its_row(browser: Browser, folder: Path) -> None:
    """#cell-c03 marks the row, and brings it back if the filter hides it."""
    browser.open(folder / "quickstart.html")
    browser.evaluate(
        '{const node = document.getElementById("filter"); node.value = "nothing";'
        'node.dispatchEvent(new Event("input")); location.hash = "#cell-c03"}'
    )
    browser.evaluate("1")
    row = 'document.getElementById("cell-c03")'
    assert browser.evaluate(f"!{row}.hidden && {row}.matches(':target')")


def test_map_and_table_are_linked_for_the_keyboard(browser: Browser, folder: Path) -> None:
    """A square takes the focus and leads to its row; the row's own link leads back."""
    browser.open(folder / "grid.html")
    for place, link in (
        ("cell-c03", "#map-cell-c03 a"), ("map-cell-c03", "#cell-c03 .to-map"),
    ):  # fmt: skip
        node = f'document.querySelector("{link}")'
        browser.evaluate(f"{node}.focus()")
        assert browser.evaluate(f"document.activeElement === {node}")
        browser.evaluate(f"{node}.click()")
        browser.evaluate("1")
        assert browser.evaluate(f"document.getElementById('{place}').matches(':target')")


def test_downloads_hold_the_data(browser: Browser, folder: Path) -> None:
    """The buttons save the embedded CSV and JSON, with names that tell the run."""
    browser.open(folder / "quickstart.html")
    browser.evaluate(
        "{window.saved = []; URL.createObjectURL = (blob) => { window.saved.push(blob); "
        "return '#'; }; HTMLAnchorElement.prototype.click = function () "
        "{ window.saved.push(this.download); };}"
    )
    browser.evaluate(
        "for (const id of ['save-csv', 'save-json']) document.getElementById(id).click()"
    )
    names = browser.evaluate("window.saved.filter((item) => typeof item === 'string')")
    stem = "tailbreak-20261130-021500-quickstart"
    assert names == [f"{stem}.csv", f"{stem}.json"]
    texts = browser.evaluate(
        "Promise.all(window.saved.filter((item) => item instanceof Blob).map((b) => b.text()))",
    )
    assert len(list(csv.DictReader(io.StringIO(texts[0])))) == len(make_report().cells)
    assert json.loads(texts[1])["schema"] == 1


def test_theme_button(browser: Browser, folder: Path) -> None:
    """The button turns the theme against the system's setting."""
    browser.open(folder / "quickstart.html", scheme="dark")
    browser.evaluate('document.getElementById("theme").click()')
    ground = "getComputedStyle(document.body).backgroundColor"
    assert browser.evaluate(ground) == "rgb(255, 255, 255)"


def test_paper_is_light_and_whole(browser: Browser, folder: Path) -> None:
    """Printed from a dark screen the page is light, without tools, and no table is cut."""
    browser.open(folder / "quickstart.html", width=720, scheme="dark", media="print")
    ground = "getComputedStyle(document.body).backgroundColor"
    assert browser.evaluate(ground) == "rgb(255, 255, 255)"
    assert not browser.evaluate('document.querySelector(".tools").checkVisibility()')
    assert browser.evaluate("document.documentElement.scrollWidth") <= 720


def test_without_script_it_is_a_plain_page(browser: Browser, folder: Path) -> None:
    """With its script taken away, the page shows everything but the tools."""
    page = folder / "plain.html"
    html = html_of("quickstart")
    page.write_text(html[: html.rindex("<script>")] + "</body></html>", encoding="utf-8")
    browser.open(page)
    assert browser.evaluate('document.querySelectorAll("#cells tbody tr").length') == 14
    assert not browser.evaluate('document.querySelector(".tools").checkVisibility()')
    assert not browser.evaluate('document.getElementById("theme").checkVisibility()')


def test_hostile_text_does_nothing(browser: Browser, folder: Path) -> None:
    """A report full of attacks runs no script, asks for nothing and breaks no layout."""
    from harness.report.html import render_html

    browser.messages.clear()
    browser.requests.clear()
    path = folder / "hostile.html"
    text = "".join(ATTACKS[name] for name in ("close script", "attribute", "svg", "rtl"))
    path.write_text(render_html(hostile_report(text)), encoding="utf-8")
    browser.open(path, width=400)
    assert browser.evaluate("document.documentElement.scrollWidth") == 400
    assert browser.messages == []
    assert [url for url in browser.requests if not url.startswith("data:")] == [path.as_uri()]


def test_cells_are_chosen_by_state(browser: Browser, folder: Path) -> None:
    """A state is chosen by its sign and word, whatever is said below it."""
    browser.open(folder / "surface.html")
    state = (
        '[...document.querySelectorAll("select[data-column]")].find((each) => '
        'each.closest("label").textContent.includes("State"))'
    )
    browser.evaluate(
        f"{state}.value = '\u25c7 interval still wide';{state}.dispatchEvent(new Event('change'))"
    )
    shown = '[...document.querySelectorAll("#cells tbody tr")].filter((row) => !row.hidden)'
    assert browser.evaluate(f"{shown}.map((row) => row.id)") == ["cell-c13", "cell-c17", "cell-c22"]
