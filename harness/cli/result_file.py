"""A file that a study writes when it is done: asked for before the work, not after it."""

from pathlib import Path

from harness.base.errors import SetupError


def check_folder(option: str, path: Path | None) -> None:
    """Refuse a path that cannot be a file, before minutes are spent on what goes into it."""
    if path is None:
        return
    if not path.parent.is_dir():
        raise SetupError(f"{option} {path}: there is no folder {path.parent}")
    if path.is_dir():
        raise SetupError(f"{option} {path}: this is a folder; name a file in it")


def check_whole(option: str, path: Path | None) -> None:
    """The same for a file that takes the place of an older one: never that of a device."""
    check_folder(option, path)
    if path is not None and path.exists() and not path.is_file():
        raise SetupError(f"{option} {path}: this is no plain file, and would be replaced by one")
