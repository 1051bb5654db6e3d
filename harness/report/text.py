"""Words from outside, made safe to show: bounded, on one line, without control characters.

Titles, addresses and error texts come from servers and files and may hold anything. Escaping is
the template's work; here a text loses what could reorder or hide its neighbours, and its excess.
"""

import re
import unicodedata
from typing import Final

LINE_LIMIT: Final = 300
NAME_LIMIT: Final = 32
_INSTANT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_UNITS: Final = re.compile(r"(?<=[\d?]) (?=(?:%|ms|s|\u00b5s)(?!\w))")
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?]) (?=[A-Z])")
_SPACES: Final = re.compile(r"\s+")
_JOINERS: Final = "\u200c\u200d"  # letters of Persian and Hindi, and emoji, need them
_HIDDEN: Final = frozenset({"Cc", "Cs", "Co", "Cn"})


def line(text: str, limit: int = LINE_LIMIT) -> str:
    """One line of at most `limit` characters; what was left out is counted."""
    head = text[: limit * 4]
    flat = _SPACES.sub(" ", "".join(map(_visible, head))).strip()
    left_out = len(text) - len(head) + max(0, len(flat) - limit)
    if not left_out:
        return flat
    return f"{flat[:limit].rstrip()}\u2026 [{left_out:,} more characters]"


def short(text: str, limit: int = NAME_LIMIT) -> str:
    """A name for an axis, a heading or a label: at most `limit` characters, dots at a cut."""
    flat = line(text[: limit * 4], limit * 4)
    return flat if len(flat) <= limit else f"{flat[: limit - 1].rstrip()}\u2026"


def instant(text: str) -> str:
    """`2026-11-30T02:15:00+00:00` as `2026-11-30 02:15:00 UTC`; anything else as it is."""
    found = _INSTANT.fullmatch(text)
    if found is None:
        return short(text)
    day, time, zone = found.groups()
    return f"{day} {time} {'UTC' if zone in {'Z', '+00:00'} else zone}"


def sentences(text: str) -> list[str]:
    """Cut after each full stop that a capital letter follows."""
    return [part for part in _SENTENCE_ENDS.split(text) if part]


def glued(text: str) -> str:
    """A number and its unit on one line: no break before `%`, `ms` or `s`."""
    return _UNITS.sub("\u00a0", text)


def slug(text: str) -> str:
    """Letters, digits and dashes, fit for an element id."""
    return re.sub(r"[^a-z0-9]+", "-", text[:200].lower()).strip("-")[:60] or "x"


def unique_slugs(texts: list[str]) -> list[str]:
    """One distinct slug for each text, in order."""
    seen: set[str] = set()
    slugs = []
    for text in texts:
        base = slug(text)
        name, i = base, 2
        while name in seen:
            name, i = f"{base}-{i}", i + 1
        seen.add(name)
        slugs.append(name)
    return slugs


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category == "Cf":  # marks that turn the reading direction, and other marks without a shape
        return character if character in _JOINERS else ""
    return "\ufffd" if category in _HIDDEN else character
