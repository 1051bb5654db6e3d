"""A small strict reader of HTML for tests: what a page holds, and whether its tags close."""

from collections import Counter
from html.parser import HTMLParser

VOID = frozenset({"meta", "link", "input", "br", "path", "circle", "rect", "use"})


class Page(HTMLParser):
    """What is in a page.

    Attributes:
        ids: every element id with how often it occurs.
        elements: (tag, attributes) in document order.
        texts: visible text by the tag it stands in.
        unclosed: tags that were left open or closed twice.
    """

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.ids: Counter[str] = Counter()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.unclosed: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        self.unclosed += self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self._note(tag, attrs)
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element that closes itself."""
        self._note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element, which must be of this tag."""
        if tag in VOID:
            return
        if self._open and self._open[-1] == tag:
            self._open.pop()
        else:
            self.unclosed.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.texts.append((self._open[-1] if self._open else "", data))

    def all(self, tag: str) -> list[dict[str, str]]:
        """Attributes of each element of a tag."""
        return [attributes for name, attributes in self.elements if name == tag]

    def text_in(self, tag: str) -> str:
        """All text directly inside elements of a tag."""
        return "".join(text for name, text in self.texts if name == tag)

    def visible_text(self) -> str:
        """All text but scripts and styles."""
        return " ".join(text for name, text in self.texts if name not in {"script", "style"})

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        self.elements.append((tag, attributes))
        if "id" in attributes:
            self.ids[attributes["id"]] += 1
