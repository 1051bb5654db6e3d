"""Keys come from the environment and are never shown: not in a file, a log, a message."""

import os

from harness.base.errors import SetupError


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
