"""The run folder: what a run leaves behind, each file written whole or not at all.

scenario.json     every value in force            plan.json     every intended send
environment.json  machine, versions, clocks       run.json      id, target, status, sessions
shards/           append-only Arrow streams       requests.parquet   the same rows, compacted
topology.json     links between GPUs, where there are any
telemetry.arrows  what servers said meanwhile     telemetry.parquet  the same, compacted
progress.json, client.json   the load process about itself
environment-2.json, client-2.json, ...   the same of later sessions
run.lock          who writes into the run now
report.json, report.html, summary.md
"""

import contextlib
import itertools
import json
import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from harness.base.errors import RecordError, SetupError

RUNS_DIR: Final = Path("reports/runs")
"""Where runs go unless another folder is named."""
_serial = itertools.count()


def new_run_id(scenario: str, started: datetime) -> str:
    """Sortable id: date, time, scenario."""
    return f"{started:%Y%m%d-%H%M%S}-{scenario}"


@dataclass(frozen=True)
class RunFolder:
    """One run's folder.

    Attributes:
        path: the folder itself.
    """

    path: Path

    @classmethod
    def create(cls, runs_dir: Path, run_id: str) -> "RunFolder":
        """A new folder below `runs_dir`; a taken name gets a counter.

        Raises:
            SetupError: the folder cannot be made.
        """
        try:
            runs_dir.mkdir(parents=True, exist_ok=True)  # a file, or a link to nowhere, ends here
            for counter in range(1000):
                path = runs_dir / (run_id if counter == 0 else f"{run_id}-{counter}")
                with contextlib.suppress(FileExistsError):
                    path.mkdir()
                    (path / "shards").mkdir()
                    return cls(path)
        except OSError as error:
            raise SetupError(
                f"cannot create the run folder {runs_dir / run_id}: {error.strerror}; "
                "choose another with --runs-dir"
            ) from error
        raise SetupError(f"{runs_dir / run_id}: a thousand runs of this name within one second")

    @classmethod
    def open(cls, path: Path) -> "RunFolder":
        """An existing run.

        Raises:
            RecordError: no run is there.
        """
        if not (path / "run.json").is_file():
            raise RecordError(
                f"{path}: no run here (run.json is missing); runs are folders such as "
                "reports/runs/20260101-120000-quickstart"
            )
        return cls(path)

    @property
    def id(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def shards(self) -> Path:
        """Where writers put their Arrow streams."""
        return self.path / "shards"

    def file_of_session(self, name: str, session: int) -> str:
        """`client.json` of the first session, `client-2.json` of the second."""
        stem, dot, suffix = name.partition(".")
        return name if session == 1 else f"{stem}-{session}{dot}{suffix}"

    def write_json(self, name: str, value: Any) -> None:
        """Write a JSON file so that a reader sees the old one or the new one, nothing between.

        Raises:
            RecordError: the disk is full or the folder is gone.
        """
        text = json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False)
        self.write_text(name, text + "\n")

    def write_text(self, name: str, text: str) -> None:
        """Write a text file whole or not at all; safe from several threads at once.

        Raises:
            RecordError: the disk is full or the folder is gone.
        """
        part = self.path / f".{name}.{os.getpid()}-{next(_serial)}.part"
        try:
            part.write_text(text, encoding="utf-8")
            part.replace(self.path / name)
        except OSError as error:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise RecordError(f"{self.path / name}: cannot be written: {error.strerror}") from error

    def read_json(self, name: str) -> Any:
        """The value of a JSON file.

        Raises:
            RecordError: missing or damaged, with its path.
        """
        path = self.path / name
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise RecordError(f"{path}: missing; the run was not started properly") from error
        except (OSError, ValueError, RecursionError) as error:
            raise RecordError(f"{path}: unreadable JSON: {error}") from error

    def read_object(self, name: str) -> dict[str, Any]:
        """The JSON object in a file.

        Raises:
            RecordError: missing, damaged, or no object.
        """
        value = self.read_json(name)
        if not isinstance(value, dict):
            raise RecordError(f"{self.path / name}: got no JSON object")
        return value

    def has(self, name: str) -> bool:
        """Whether the file exists."""
        return (self.path / name).is_file()
