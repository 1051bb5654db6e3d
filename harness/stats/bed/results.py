"""Results of the bed in a file of JSON lines, one a range of replicates: what makes it resumable.

A line cut short by a kill is left out and its range is run again. Lines of another seed or of other
code of `harness.stats` do not count.
"""

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from harness.stats.bed.task import SEED, Case, Sums, add

_STATS = Path(__file__).parents[1]


def fingerprint() -> str:
    """Of the code of `harness.stats`: results hold for that code only."""
    digest = hashlib.sha256(str(SEED).encode())
    for path in sorted(_STATS.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@dataclass
class Results:
    """Sums so far, by task and case."""

    path: Path
    code: str
    done: dict[tuple[str, Case], tuple[int, Sums]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Read what is there."""
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                self._read(line)

    def of(self, task: str, case: Case) -> tuple[int, Sums]:
        """Replicates done and their sums."""
        return self.done.get((task, case), (0, {}))

    def append(self, task: str, case: Case, replicates: range, sums: Sums) -> None:
        """Keep the next range of a case, on disk before it counts."""
        line = {
            "code": self.code, "seed": SEED, "task": task, "case": case,
            "first": replicates.start, "last": replicates.stop, "sums": sums,
        }  # fmt: skip
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(b"\n" + json.dumps(line).encode() + b"\n")  # a torn line before ends here
            file.flush()
            os.fsync(file.fileno())
        self._count(task, case, replicates.start, replicates.stop, sums)

    def _read(self, line: bytes) -> None:
        try:
            row = json.loads(line)
            if row["code"] != self.code:
                return
            sums = {name: (float(v), int(n)) for name, (v, n) in row["sums"].items()}
            self._count(row["task"], tuple(row["case"]), row["first"], row["last"], sums)
        except (ValueError, KeyError, TypeError, AttributeError):
            return

    def _count(self, task: str, case: Case, first: int, last: int, sums: Sums) -> None:
        n, before = self.of(task, case)
        if first == n:
            self.done[task, case] = (last, add([before, sums]))
