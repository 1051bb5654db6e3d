"""Every error a user can meet, by whose fault it is.

TailbreakError                 carries the exit code
├─ ScenarioError      exit 2   the user's input: file, key path, every problem at once
├─ SetupError         exit 2   this machine cannot do it: port taken, server unreachable at start
├─ RecordError        exit 2   stored data unreadable: file, offset, schema version
└─ MeasurementInvalid exit 5   the harness failed itself: empty run, clock step, dispatch lag

A failing *target* is none of these: it is a record with an outcome.
"""

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every command; where several hold the order is 2, 5, 1, 4, 3."""

    PASS = 0
    REQUESTS_FAILED = 1
    INPUT_OR_SETUP = 2
    SLO_MISSED = 3
    REGRESSION = 4
    UNDECIDED = 5


class TailbreakError(Exception):
    """Something the person at the terminal must know: what came, what is allowed, what to do."""

    exit_code = ExitCode.INPUT_OR_SETUP


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One thing wrong with the user's input.

    Attributes:
        where: key path inside the file, such as `load.concurrency`.
        got: what stood there; empty where the values are fine alone but not together.
        allowed: what may stand there, or what contradicts.
        hint: what to try, or empty.
    """

    where: str
    got: str
    allowed: str
    hint: str = ""

    def __str__(self) -> str:
        """`where: got X, allowed Y, try Z`."""
        came = f"got {self.got}, allowed " if self.got else ""
        text = f"{self.where}: {came}{self.allowed}"
        return f"{text}, try {self.hint}" if self.hint else text


class ScenarioError(TailbreakError):
    """The scenario cannot be run as written; carries every problem found."""

    def __init__(self, file: str, problems: list[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        lines = "\n".join(f"{file}: {problem}" for problem in problems)
        super().__init__(lines)


class SetupError(TailbreakError):
    """This machine, or the server asked for, cannot do what was asked."""


class RecordError(TailbreakError):
    """Stored data cannot be read; the message names the file and what was expected."""


class MeasurementInvalid(TailbreakError):  # noqa: N818  the field's word for a void measurement
    """The harness failed itself: its numbers are no evidence."""

    exit_code = ExitCode.UNDECIDED
