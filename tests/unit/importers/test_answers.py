"""Logged answers, read line by line; what is no answer is counted or told."""

from pathlib import Path

import pytest

from harness.base.errors import SetupError
from harness.importers.answers import read_answers


def test_lines_of_every_kind(tmp_path: Path) -> None:
    """Text under any of its names, empty answers, outcomes of ours; junk is counted."""
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"text": "a", "prompt": "q", "finish_reason": "stop"}\n\n{"content": " "}\nno json\n[1]\n'
        '{"outcome": "truncated"}\n{"completion": "c", "outcome": "made up"}\n{"other": 1}\n'
    )
    rows, n_strange = read_answers(path)
    assert rows["text"].fillna("-").tolist() == ["a", " ", "-", "c"]
    assert rows["outcome"].tolist() == ["ok", "empty_success", "truncated", "ok"]
    assert rows["prompt"].iloc[0] == "q"
    assert n_strange == 3


@pytest.mark.parametrize("text", ["", "nothing\n", '{"a": 1}\n', "[" * 100_000])
def test_a_file_without_answers_is_told(tmp_path: Path, text: str) -> None:
    """What may stand there is said."""
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(SetupError, match="no answer in"):
        read_answers(path)


def test_a_file_that_is_not_there_or_too_long_is_told(tmp_path: Path) -> None:
    """Neither is a trace."""
    with pytest.raises(SetupError, match="cannot be read"):
        read_answers(tmp_path / "none")
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "' + "x" * (1 << 20) + '"}')
    with pytest.raises(SetupError, match="give a part"):
        read_answers(path)
