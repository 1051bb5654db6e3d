"""Keys come from the environment and are never shown: not in a file, a log, a message."""

import os
from typing import Final

from harness.base.errors import SetupError

SHOWN: Final = "[key]"
LEAST_SECRET: Final = 4


def read_api_key(variable: str, told_by: str) -> str:
    """The key in an environment variable, fit for a header; `told_by` is the option that names it.

    Raises:
        SetupError: the variable is unset or empty, or holds what no header carries.
    """
    key = os.environ.get(variable)
    if not key:
        raise SetupError(
            f"{told_by} names {variable}, which is not set; export {variable}=... and start again"
        )
    if key != key.strip() or not (key.isascii() and key.isprintable()):
        raise SetupError(
            f"{told_by} names {variable}: the key there begins or ends with a space, or has a line "
            "end or a character outside ASCII, which no header carries; export a plain one"
        )
    return key


def hide_key(text: str, key: str | None) -> str:
    """The text with `[key]` wherever a server repeats our key, a beginning cut off at the end too.

    A key of three characters is no secret, and would be part of many words.
    """
    if key is None or len(key) < LEAST_SECRET:
        return text
    hidden = text.replace(key, SHOWN)
    for n in range(len(key) - 1, LEAST_SECRET - 1, -1):
        if hidden.removesuffix("…").endswith(key[:n]):
            return hidden.removesuffix("…").removesuffix(key[:n]) + SHOWN
    return hidden
