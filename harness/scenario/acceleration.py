"""Values of the axis `accelerated`: the path, or the features, that a cell asks for.

`false` is the baseline, `true` all that the target calls accelerated, a text the comma list of
features that `X-MC-Accel` takes. What a word means is the target's business: it refuses what it
does not know, and its answer says what ran.
"""

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field

Asked = bool | str
"""`false`, `true`, or features in `normalised` spelling."""
FACTOR: Final = "accelerated"
ALL: Final = "true"
NONE: Final = "false"
MAX_LENGTH: Final = 200
_WORD: Final = re.compile(r"[a-z0-9_:]+")
_LIST: Final = r"^[a-z0-9_:]+(,[a-z0-9_:]+)*$"


def normalised(value: Any) -> Any:
    """One spelling for one request: small letters, no spaces, `true` first, the rest sorted.

    Raises:
        ValueError: neither a boolean nor a list of words.
    """
    if isinstance(value, bool):
        return value
    if not isinstance(value, str) or not 0 < len(value) <= MAX_LENGTH:
        raise ValueError(
            f"got {str(value)[:MAX_LENGTH]!r}, allowed is true, false or a comma list of features "
            f"of at most {MAX_LENGTH} characters, such as 'paged_kv,prefix_cache'"
        )
    words = [word.strip().lower() for word in value.split(",")]
    _require_words(value, words)
    if words in ([ALL], [NONE]):
        return words == [ALL]
    return ",".join(sorted(words, key=lambda word: (word != ALL, word)))


def _require_words(value: str, words: list[str]) -> None:
    bad = [word for word in words if not _WORD.fullmatch(word)]
    if bad:
        raise ValueError(
            f"got {value!r} with the word {bad[0]!r}, allowed are letters, digits, '_' and ':'"
        )
    if len(set(words)) < len(words):
        raise ValueError(f"got {value!r}, which names a feature twice")
    if NONE in words and len(words) > 1:
        raise ValueError(f"got {value!r}, but 'false' is the baseline: it stands alone")


def header(value: Asked) -> str:
    """The value as `X-MC-Accel` says it."""
    return value if isinstance(value, str) else ALL if value else NONE


def agrees(asked: Asked, features: frozenset[str]) -> bool:
    """Whether an answer that ran with `features` is what was asked for.

    A list asks for exactly its words; `true`, alone or beside others, for whatever comes with it.
    """
    words = set(header(asked).split(",")) - {NONE}
    if ALL in words:
        return bool(features) and features >= words - {ALL}
    return features == words


Acceleration = Annotated[
    bool | Annotated[str, Field(pattern=_LIST, max_length=MAX_LENGTH)],
    BeforeValidator(normalised),
]
