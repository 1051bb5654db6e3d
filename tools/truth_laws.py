"""Runs planted laws over HTTP through `tailbreak run` and says whether what it reports is true.

python -m tools.truth_laws --seeds 5            every law, five seeds, as a Markdown table
python -m tools.truth_laws --seeds 5 jump kink  these two
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from harness.findings.finding import Breakpoint
from harness.report.schema import Report
from harness.server.truth.law import Law, read_law
from harness.server.truth.process import start_truth

ROOT: Final = Path(__file__).resolve().parents[1]
SCENARIO: Final = ROOT / "scenarios" / "laws.toml"
LAWS: Final = ROOT / "scenarios" / "laws"
LIMIT_S: Final = 400
KINK_AS_JUMP: Final = 0.25
"""Where only a kink is planted: a curve on which a smaller jump would show must show the kink."""
LOCALISED: Final = ("jump", "kink", "both")
Judgement = Literal["right", "undecided", "missed", "misplaced", "wrong kind"]


@dataclass(frozen=True, kw_only=True)
class LawRun:
    """One law, driven once."""

    law: Law
    report: Report

    @property
    def found(self) -> Breakpoint:
        """What was reported on the one curve."""
        (curve,) = self.report.breakpoints
        return curve

    @property
    def grid(self) -> list[float]:
        """The values of the axis."""
        return sorted(float(cell.factors[self.found.axis]) for cell in self.report.cells)

    def judge(self) -> Judgement:
        """Whether the report is true.

        "none" where something is planted is undecided, not wrong, if the report itself says so: it
        left out cells as void, or a jump as large as the planted one was not sure to be seen.
        """
        if self.found.kind in self.law.truth.found:
            return "right" if self._is_placed() else "misplaced"
        if self.found.kind != "none":
            return "wrong kind"
        return "undecided" if self._says_it_cannot_tell() else "missed"

    def _is_placed(self) -> bool:
        place = self.law.place
        if self.found.kind not in LOCALISED or self.found.location is None or place is None:
            return True
        return self.steps_between(self.found.location, place) <= self.law.truth.within_steps

    def steps_between(self, one: float, other: float) -> float:
        """Grid steps from one place to the other, both on the logarithmic axis."""
        grid = np.log(self.grid)
        at = np.interp(np.log([one, other]), grid, np.arange(grid.size))
        return float(abs(at[0] - at[1]))

    def _says_it_cannot_tell(self) -> bool:
        is_void = any(cell.state == "invalid-client" for cell in self.report.cells)
        sizes = [item.size for item in self.law.ttft.breaks if item.kind == "jump"]
        seen = self.found.detectable_effect
        return is_void or seen is None or seen >= min(sizes, default=KINK_AS_JUMP)


def run_law(law: Path, folder: Path, *, seed: int) -> LawRun:
    """Drive one law with the laws' scenario in processes of their own; runs land in `folder`."""
    with start_truth(law, "--seed", str(seed)) as server:
        command = [
            sys.executable, "-m", "harness.cli.main", "run", str(SCENARIO),
            "--target", server.url, "--runs-dir", str(folder), "--seed", str(seed),
        ]  # fmt: skip
        done = subprocess.run(  # noqa: S603  our own module
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
    try:
        (path,) = folder.glob("*/report.json")
    except ValueError as error:
        raise RuntimeError(f"no report:\n{done.stdout}\n{done.stderr}") from error
    report = Report.model_validate_json(path.read_text(encoding="utf-8"))
    return LawRun(law=read_law(law), report=report)


def main() -> None:
    """Print the table, a row when a law is done; exit 1 where something untrue was reported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("laws", nargs="*", help="names of laws; default: all")
    parser.add_argument("--seeds", type=int, default=1, help="runs per law, each with its own seed")
    options = parser.parse_args()
    names = options.laws or sorted(path.stem for path in LAWS.glob("*.toml"))
    print("| law | planted | runs | right | undecided | untrue | found, by run |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    n_untrue = 0
    for name in names:
        runs = [_run(LAWS / f"{name}.toml", seed) for seed in range(1, options.seeds + 1)]
        counts = Counter(run.judge() for run in runs)
        untrue = len(runs) - counts["right"] - counts["undecided"]
        n_untrue += untrue
        cells = (
            name, _planted(runs[0].law), len(runs), counts["right"], counts["undecided"], untrue,
            _found(runs),
        )  # fmt: skip
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    sys.exit(n_untrue > 0)


def _run(law: Path, seed: int) -> LawRun:
    with tempfile.TemporaryDirectory() as folder:
        return run_law(law, Path(folder), seed=seed)


def _planted(law: Law) -> str:
    breaks = ", ".join(f"{item.kind} {item.size:g} at {item.at:g}" for item in law.ttft.breaks)
    return breaks or "no break"


def _found(runs: list[LawRun]) -> str:
    """Kind of each run, with place and size (and its interval) of what is one break."""
    return "; ".join(_shown(run.found) for run in runs)


def _shown(found: Breakpoint) -> str:
    if found.kind not in LOCALISED or found.effect is None:
        return found.kind
    size = f"{found.effect:.2f} ({found.effect_low:.2f} to {found.effect_high:.2f})"
    return f"{found.kind} at {found.location:.0f}, {size}"


if __name__ == "__main__":
    main()
