"""The comparison of answers that a scenario asks for: before its load, in a process of its own."""

import subprocess
import sys
from typing import TYPE_CHECKING

import typer

from harness.base.errors import ExitCode, SetupError
from harness.records.fidelity import FILE, read_fidelity
from harness.scenario.acceleration import header

if TYPE_CHECKING:
    from harness.records.run import RunFolder
    from harness.scenario.schema import Scenario
    from harness.server.options import ServerOptions


def compare_answers(
    folder: "RunFolder", scenario: "Scenario", options: "ServerOptions", *, show: bool
) -> None:
    """Leave `fidelity.json` in the run folder, where the scenario asks for it and none is yet.

    Raises:
        SetupError: the comparison could not be made.
    """
    if not scenario.fidelity or folder.has(FILE):
        return
    asked = [header(value) for value in scenario.axes.given()["accelerated"] if value]
    done = subprocess.run(  # noqa: S603  our own verb
        [*_command(options, asked, scenario.seed), "--json", str(folder.path / FILE)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=None if show else subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode not in {ExitCode.PASS, ExitCode.UNDECIDED} or not folder.has(FILE):
        said = (done.stderr or "see above").strip()
        said = said.removeprefix("tailbreak: ") if "tailbreak: " in said else said[-500:]
        raise SetupError(f"the answers could not be compared (fidelity = true): {said}")
    for path in read_fidelity(folder).paths:
        typer.echo(f"answers of {path.asked}: {path.verdict}", err=True)


def _command(options: "ServerOptions", asked: list[str], seed: int) -> list[str]:
    """`tailbreak fidelity` as the bundled server will run."""
    given = {
        "model": options.model,
        "max-num-seqs": options.max_num_seqs,
        "max-num-batched-tokens": options.max_num_batched_tokens,
        "kv-tokens": options.kv_tokens,
        "threads": options.threads,
        "max-model-len": options.max_model_len,
        "seed": seed,
    }
    words = [f"--{name}={value}" for name, value in given.items() if value is not None]
    words += [f"--pool={pool}" for pool in options.pool]
    words += [f"--features={value}" for value in asked]
    return [sys.executable, "-m", "harness.cli.main", "fidelity", *words]
