"""Answers from a log, one JSON object a line: what was asked, what came, how it ended.

Reads `text` (or `content`, `completion`), and where it is there `prompt` and `outcome`;
everything else is left alone. Bounded; a line that is no object is counted.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pandas as pd

from harness.base.errors import SetupError
from harness.records.request import Outcome

MAX_LINES: Final = 200_000
MAX_LINE: Final = 1 << 20
_TEXTS: Final = ("text", "content", "completion")
_OUTCOMES: Final = frozenset(outcome.value for outcome in Outcome)


def read_answers(path: Path) -> tuple[pd.DataFrame, int]:
    """Answers with the columns text, prompt, outcome; and how many lines were none.

    Raises:
        SetupError: the file cannot be read, is too long, or holds no answer.
    """
    rows: list[dict[str, Any]] = []
    n_strange = 0
    for line in _lines(path):
        row = _answer(line)
        if row is None:
            n_strange += 1
        else:
            rows.append(row)
    if not rows:
        raise SetupError(
            f"{path}: no answer in {n_strange:,} lines; allowed is one JSON object a line with "
            '"text", and "prompt" or "outcome" where they are known'
        )
    return pd.DataFrame(rows, columns=["text", "prompt", "outcome"]), n_strange


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for number in range(MAX_LINES + 1):
                line = file.readline(MAX_LINE + 1)
                if not line:
                    return
                if number == MAX_LINES or len(line) > MAX_LINE:
                    raise SetupError(
                        f"{path}: more than {MAX_LINES:,} lines, or one above {MAX_LINE:,} "
                        "characters; give a part of it"
                    )
                if line.strip():
                    yield line
    except OSError as error:
        raise SetupError(f"{path}: cannot be read: {error.strerror}") from error


def _answer(line: str) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    text = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), None)
    prompt = value.get("prompt")
    outcome = _outcome(value, text)
    if text is None and outcome is None:
        return None
    return {
        "text": text, "prompt": prompt if isinstance(prompt, str) else None, "outcome": outcome,
    }  # fmt: skip


def _outcome(value: Mapping[str, Any], text: str | None) -> str | None:
    """As we would name it: what the line says, or empty where a finished answer has no text."""
    if value.get("outcome") in _OUTCOMES:
        return str(value["outcome"])
    if text is None:
        return None
    return (Outcome.OK if text.strip() else Outcome.EMPTY_SUCCESS).value
