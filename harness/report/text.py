"""Texts of the page: instants, sentences and ids."""

import re
from typing import Final

from harness.findings.text import line, short

__all__ = ["glued", "instant", "line", "sentences", "short", "slug", "unique_slugs"]
_INSTANT: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII
)
_UNITS: Final = re.compile(r"(?<=[\d?]) (?=(?:%|ms|s|\u00b5s)(?!\w))")
_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?]) (?=[A-Z])")


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
