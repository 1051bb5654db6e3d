"""Everything that can be had of a moment, in one folder: pages, stacks, the process's own files.

Each part is tried by itself; one that cannot be had leaves a sentence that says why in its place.
What perishes first is taken first. All parts are bounded.
"""

import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.base.clock import Clock
from harness.base.errors import RecordError, TailbreakError
from harness.importers.metrics_source import Answer
from harness.importers.metrics_text import Page

STACKS_TIMEOUT_S: Final = 20.0
MAX_BYTES: Final = 4 << 20
PROC_FILES: Final = ("status", "stat", "io", "schedstat", "smaps_rollup", "wchan", "limits")
_GARBAGE: Final = ("gc_", "_gc")
_LINK: Final = ("pcie", "nvlink", "xid", "ecc", "replay")


@dataclass(frozen=True, kw_only=True)
class Part:
    """One file of a snapshot.

    Attributes:
        name: the file.
        make: its text.
    """

    name: str
    make: Callable[[], str]


def take_snapshot(folder: Path, told: Mapping[str, Any], parts: list[Part], clock: Clock) -> None:
    """Write each part, then `trigger.json` with what is told and when each part was taken.

    Raises:
        RecordError: the folder cannot be written.
    """
    taken = []
    try:
        folder.mkdir(parents=True)
        for part in parts:
            began = clock.realtime_ns()
            text, error = _made(part)
            (folder / part.name).write_bytes(text.encode("utf-8", "replace")[:MAX_BYTES])
            taken.append(
                {
                    "file": part.name, "began_unix_ns": began, "ended_unix_ns": clock.realtime_ns(),
                    "error": error,
                }
            )  # fmt: skip
        value = {"schema": 1, **told, "parts": taken}
        (folder / "trigger.json").write_text(json.dumps(value, indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise RecordError(f"{folder}: cannot be written: {error.strerror}") from error


def _made(part: Part) -> tuple[str, str | None]:
    try:
        return part.make(), None
    except (OSError, TailbreakError, subprocess.SubprocessError) as error:
        return f"not to be had: {error}\n", str(error)


def stacks(pid: int) -> str:
    """Stacks of every thread of a Python process, by py-spy."""
    program = _py_spy()
    if program is None:
        return "not to be had: py-spy is not installed; pip install py-spy\n"
    done = subprocess.run(  # noqa: S603  a number is all that is given to it
        [program, "dump", "--pid", str(pid)], capture_output=True, text=True, errors="replace",
        timeout=STACKS_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        return f"not to be had: py-spy: {done.stderr.strip()[:500]}\n"
    return done.stdout


def _py_spy() -> str | None:
    """Beside this Python, or on the path."""
    beside = Path(sysconfig.get_path("scripts")) / "py-spy"
    return str(beside) if beside.is_file() else shutil.which("py-spy")


def process_files(pid: int) -> str:
    """What Linux says of a process: state, memory, reads and writes, time on the processor."""
    if sys.platform != "linux":
        return "not to be had: /proc is Linux's\n"
    return "\n".join(f"== {name}\n{_proc_file(pid, name)}" for name in PROC_FILES)


def _proc_file(pid: int, name: str) -> str:
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError as error:
        return f"not to be had: {error.strerror}"


def page_text(page: Page) -> str:
    """A page as text, series by series, in its order."""
    lines = []
    for (name, labels), value in page.values.items():
        pairs = ",".join(f"{key}={json.dumps(text)}" for key, text in labels)
        lines.append(f"{name}{{{pairs}}} {value!r}" if pairs else f"{name} {value!r}")
    return "\n".join([*lines, ""])


def garbage_state(before: Answer, now: Answer) -> str:
    """What the endpoint says of its search for garbage: before, and now."""
    return _changes(before.page, now.page, _GARBAGE)


def link_errors(before: Page, now: Page) -> str:
    """What an exporter says of PCIe and NVLink errors and traffic: since the watch began."""
    return _changes(before, now, _LINK)


def _changes(before: Page, now: Page, words: tuple[str, ...]) -> str:
    """Series whose name has one of the words: before and now; a missing value is a dash."""
    lines = []
    for key, value in now.values.items():
        was = before.values.get(key)
        if any(word in key[0].lower() for word in words):
            labels = " ".join(f"{name}={text}" for name, text in key[1])
            lines.append(f"{key[0]} {labels}: {'-' if was is None else was!r} -> {value!r}")
    return "\n".join([*lines, ""]) if lines else "the endpoint tells none\n"
