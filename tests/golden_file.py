"""Golden files: compare, or rewrite and fail when TAILBREAK_UPDATE_GOLDEN=1 asks for it."""

import difflib
import os
from pathlib import Path

import pytest


def require_golden(path: Path, text: str) -> None:
    """Fail unless the file holds exactly `text`; a mismatch leaves `<file>.got` beside it."""
    if os.environ.get("TAILBREAK_UPDATE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
        pytest.fail(f"{path} rewritten; look at the change, then run again without the switch")
    wanted = path.read_text(encoding="utf-8") if path.is_file() else ""
    if text == wanted:
        return
    got = path.with_name(path.name + ".got")
    got.write_text(text, encoding="utf-8")
    diff = "".join(
        difflib.unified_diff(
            wanted.splitlines(keepends=True), text.splitlines(keepends=True), str(path), str(got)
        )
    )
    pytest.fail(f"{path} is not current; TAILBREAK_UPDATE_GOLDEN=1 rewrites it\n{diff[:4000]}")
