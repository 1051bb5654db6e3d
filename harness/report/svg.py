"""A matplotlib figure as one inline SVG element: themed, named, reproducible.

matplotlib draws with stand-in colours and the fonts it ships, so that the same data give the same
bytes on any machine. Here the stand-ins become CSS variables, letters stay text in the page's own
font, coordinates are rounded, ids carry the picture's name, and a title and a description are put
in for readers who do not see it.
"""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from markupsafe import escape
from matplotlib import style
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from harness.report import palette

PIXELS_PER_INCH: Final = 72
_SETTINGS: Final[dict[str, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "tailbreak",
    "text.parse_math": False,
    "axes.unicode_minus": True,
    "path.simplify": False,
    "font.size": 12,
}
_NO_METADATA: Final = dict.fromkeys(("Creator", "Date", "Format", "Type"))
_COLOURS: Final = palette.variables()


@contextmanager
def drawing() -> Iterator[None]:
    """The defaults of matplotlib and ours, whatever the user's own settings are."""
    with style.context(["default", _SETTINGS]), warnings.catch_warnings():
        # The page's own font draws the letters; what the measuring font lacks is no matter.
        warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from font")
        yield


def canvas(width: float, height: float) -> Figure:
    """An empty transparent figure of so many CSS pixels."""
    size = (width / PIXELS_PER_INCH, height / PIXELS_PER_INCH)
    figure = Figure(figsize=size, dpi=PIXELS_PER_INCH)
    figure.patch.set_visible(False)
    FigureCanvasSVG(figure)
    return figure


def inline(figure: Figure, *, name: str, title: str, description: str, css_class: str) -> str:
    """The figure as an `<svg role="img">` element whose ids all start with `name`."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    body = buffer.getvalue()
    body = body[body.index("<svg") :]
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, count=1, flags=re.DOTALL)
    body = re.sub(r"<[^>]+>", lambda tag: _tag(tag.group(), name), body)
    body = _only_used_ids(body)
    body = re.sub(r"<g>\s*</g>", "", body)
    body = re.sub(r">\s+<", "><", body).strip()
    box = re.search(r'viewBox="([^"]+)"', body)
    assert box is not None, "matplotlib writes a viewBox"
    head = (
        f'<svg class="chart {css_class}" role="img" viewBox="{box.group(1)}" '
        f'aria-labelledby="{name}-title {name}-desc">'
        f'<title id="{name}-title">{escape(title)}</title>'
        f'<desc id="{name}-desc">{escape(description)}</desc>'
    )
    return head + body[body.index(">") + 1 :]


def _tag(tag: str, name: str) -> str:
    tag = re.sub(r"\s+", " ", tag)
    tag = re.sub(r"#a000[0-9a-f]{2}", lambda hit: _COLOURS.get(hit.group(), hit.group()), tag)
    tag = re.sub(r"(\d+\.\d\d)\d+", r"\1", tag)
    tag = re.sub(r"font: ((?:\w+ )*)([\d.]+px) [^;\"]+", _font, tag)
    tag = re.sub(r" ?font-family: [^;\"]+;?", "", tag)
    tag = re.sub(r' transform="rotate\(-?0(?: [^)]*)?\)"', "", tag)
    tag = tag.replace("xlink:href", "href")
    tag = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", tag)
    return re.sub(r'style="([^"]*)"', _tidy_style, tag)


def _font(found: re.Match[str]) -> str:
    weight = "font-weight: 700; " if "bold" in found.group(1) or "700" in found.group(1) else ""
    return f"{weight}font-size: {found.group(2)}"


def _tidy_style(found: re.Match[str]) -> str:
    parts = [part.strip().replace(": ", ":") for part in found.group(1).split(";")]
    return f'style="{";".join(part for part in parts if part)}"'


def _only_used_ids(body: str) -> str:
    used = set(re.findall(r'(?:href="#|url\(#)([^")]+)', body))
    return re.sub(r' id="([^"]+)"', lambda hit: hit.group() if hit.group(1) in used else "", body)
