"""Words from outside, made safe to show: bounded, on one line, without control characters.

Titles, addresses and error texts come from servers and files and may hold anything. Escaping is
the template's work; here a text loses what could reorder or hide its neighbours, and its excess.
"""

import re
import unicodedata
from typing import Final

LINE_LIMIT: Final = 300
NAME_LIMIT: Final = 32
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


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category == "Cf":  # marks that turn the reading direction, and other marks without a shape
        return character if character in _JOINERS else ""
    return "\ufffd" if category in _HIDDEN else character
