import json
import re
from typing import Any

import pytest

from harness.report.cells_csv import to_csv
from harness.report.html import render_html
from harness.report.schema import (
    Estimate,
    Report,
    Reproduce,
    Round,
    Surface,
    TokenCounts,
    Verdict,
)
from harness.report.summary import render_summary
from tests.unit.report.make_report import (
    make_cell,
    make_gradual,
    make_jump,
    make_report,
    make_run,
    make_surface,
    make_validity,
)
from tests.unit.report.read_page import Page

ATTACKS = {
    "script": "<script>alert(1)</script>",
    "close script": "</script><script>alert(1)</script>",
    "comment": "<!--<script>",
    "attribute": "\" onmouseover=\"alert(1)\" x='",
    "template": "{{ 7*7 }}{% raw %}",
    "svg": "</text></svg><img src=x onerror=alert(1)>",
    "cdata": "]]></style><b>",
    "math": "$\\frac{x}$ $",
    "rtl": "\u202egnp.exe\u2066abc",
    "lines": "a\u2028b\u2029c\r\nd\x00e\x1b]0;x\x07",
    "surrogate escape": "\udc80\udcff",
    "emoji": "\U0001f600 \u4e2d\u6587",
    "formula": "=HYPERLINK(1)",
    "markdown": "](x) ![i](y) | a | `b` # c",
    "placeholder": 'a00001 #a00001 id="x" url(#p)',
}  # fmt: skip


def hostile_report(text: str) -> Report:
    """A report with the same text in every place that takes one."""
    cells = [
        make_cell(
            text + str(i),
            {"prompt_tokens": 64 * (i // 2 + 1), text: text if i < 2 else "b",
             "accelerated": i % 2 == 1},
            0.05 + i / 100,
            outcomes={"ok": 3, text: 5},
            features=[text],
            caveats=[text],
            tokens=TokenCounts(prompt_mean=1.0, output_mean=None, count_source=text),
            phases_tail_s={text: 0.03, "attention": 0.02},
        )
        for i in range(4)
    ]  # fmt: skip
    jump: dict[str, Any] = {"at": {text: text, "accelerated": False}, "caveats": [text]}
    return make_report(
        run=make_run(id=text, scenario=text, title=text, target=text, started=text),
        verdict=Verdict(status="regression", text=text),
        validity=make_validity(caveats=[text]),
        cells=cells,
        breakpoints=[
            make_jump(**jump, component=text, low=64.0, high=128.0),
            make_gradual(**jump),
            make_jump(axis=text, at={}, low=None, high=None, location=None),
            make_surface(
                axes=[text, "prompt_tokens"],
                surface=Surface(
                    form="half_plane",
                    axes=[text, "prompt_tokens"],
                    coefficients={
                        text: Estimate(value=0.5, low=0.4, high=0.6),
                        "prompt_tokens": Estimate(value=1.0, low=1.0, high=1.0),
                        "level": Estimate(value=128.0, low=None, high=None),
                    },
                ),
            ),
        ],
        rounds=[Round(number=1, why=["grid"], cells=[text] * 200, n_requests=3)],
        comparison=make_report().comparison,
        reproduce=Reproduce(command=text, seed=1, environment={text: text}),
        caveats=[text],
    )


@pytest.fixture(scope="module", params=list(ATTACKS))
def attack(request: pytest.FixtureRequest) -> str:
    """A text that tries to be more than text."""
    return ATTACKS[request.param]


@pytest.fixture(scope="module")
def html(attack: str) -> str:
    """The page of a report full of it."""
    return render_html(hostile_report(attack))


def test_hostile_text_stays_text(html: str) -> None:
    """No text from outside adds an element, an attribute or a handler."""
    page = Page(html)
    assert page.unclosed == []
    assert [name for name, n in page.ids.items() if n > 1] == []
    assert len(page.all("script")) == 3
    assert page.all("img") == []
    assert not any(name.startswith("on") for _, found in page.elements for name in found)


def test_hostile_text_cannot_leave_the_data(html: str) -> None:
    """The embedded data are JSON without a tag, a comment or a raw line separator."""
    for data in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL):
        assert not set(data) & set("<>&\u2028\u2029")
        json.loads(data)


def test_hostile_text_turns_no_reading_direction(html: str) -> None:
    """Marks that reorder what follows are gone, and what is left is isolated."""
    assert not set(html) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200f")
    assert "<bdi>" in html


def test_the_page_is_valid_text(html: str) -> None:
    """The page can be encoded and holds no control character."""
    html.encode("utf-8")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\x85]", html)


def test_pictures_are_well_formed(html: str) -> None:
    """Each picture is XML, so that no text in it can close it."""
    from xml.etree import ElementTree as ET

    charts = re.findall(r'<svg class="chart .*?</svg>', html, re.DOTALL)
    assert charts
    for chart in charts:
        ET.fromstring(chart)


def test_script_tags_are_shown_as_text() -> None:
    """What looked like a tag can be read on the page."""
    page = Page(render_html(hostile_report(ATTACKS["script"])))
    assert "<script>alert(1)</script>" in page.visible_text()


def test_a_megabyte_of_error_is_cut() -> None:
    """A huge text neither fills the page nor slows it down."""
    report = make_report(
        caveats=["x" * 1_000_000] * 3,
        verdict=Verdict(status="suspect", text="Word. " * 200_000),
        validity=make_validity(caveats=["<b>" * 300_000]),
    )
    html = render_html(report)
    assert len(html.encode()) < 500_000
    assert "more characters" in html


def test_summary_is_inert(attack: str) -> None:
    """The Markdown summary keeps to its lines and makes no link, picture or tag."""
    text = render_summary(hostile_report(attack))
    assert len(text.splitlines()) <= 40
    bare = re.sub(r"`[^`\n]*`", "", text)
    assert not re.search(r"(?<!\\)<\w|(?<!\\)\]\(|(?<!\\)!\[", bare)
    tables = [part.splitlines() for part in text.split("\n\n") if part.startswith("| ")]
    bars = [{len(re.findall(r"(?<!\\)\|", row)) for row in rows} for rows in tables]
    assert bars == [{5}, {6}]


def test_csv_runs_no_formula(attack: str) -> None:
    """No field starts with a sign that a spreadsheet would calculate."""
    import csv
    import io

    for row in csv.reader(io.StringIO(to_csv(hostile_report(attack)))):
        assert not any(field[:1] in {"=", "+", "@", "\t", "\r"} for field in row)
