"""A file that a study writes when it is done: asked for before the work, not after it."""

from pathlib import Path

from harness.base.errors import SetupError


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a path whose folder is not there, before minutes are spent on what goes into it."""
    if path is not None and not path.parent.is_dir():
        raise SetupError(f"{option} {path}: there is no folder {path.parent}")
