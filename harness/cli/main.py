"""`tailbreak`: one verb a file, errors turned into words and exit codes here and nowhere else."""

import contextlib
import signal
import sys
from typing import Annotated, Any, Final, NoReturn

import typer

import harness
from harness.base.errors import ExitCode, TailbreakError
from harness.cli.answers import answers
from harness.cli.bench import bench
from harness.cli.capture import capture
from harness.cli.dashboards import dashboards
from harness.cli.doctor import doctor
from harness.cli.export import export
from harness.cli.exporter import exporter
from harness.cli.fidelity import fidelity
from harness.cli.incident import incident
from harness.cli.plan import plan
from harness.cli.probe import probe
from harness.cli.records import records
from harness.cli.report import report
from harness.cli.run import run
from harness.cli.scrape import scrape
from harness.cli.serve import serve
from harness.cli.slo import slo
from harness.cli.split import split
from harness.cli.topology import topology
from harness.cli.trace import trace
from harness.cli.truth import truth
from harness.cli.verb import add_verb

INTERRUPTED: Final = 130
"""What the command-line library makes of Ctrl-C."""

UsageProblem: Final[Any] = typer.BadParameter.__mro__[2]
"""Whatever is wrong on the command line: click's class, of which newer typers have a copy."""

app = typer.Typer(
    name="tailbreak",
    help="Finds where an LLM server's P99 breaks, and says why with intervals that hold.",
    epilog=(
        "First steps: tailbreak doctor, tailbreak probe URL, then tailbreak run "
        "scenarios/quickstart.toml --target URL --requests 24.\n\n"
        "Exit codes: 0 pass, 1 requests failed past the limit, 2 input or setup, 3 SLO missed, "
        "4 regression, 5 undecided or invalid measurement; where several hold: 2, 5, 1, 4, 3."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


for _each in (
    probe,
    doctor,
    plan,
    run,
    report,
    records,
    serve,
    fidelity,
    truth,
    trace,
    export,
    exporter,
    scrape,
    capture,
    incident,
    topology,
    split,
    answers,
):
    add_verb(app, _each)
app.add_typer(bench)
app.add_typer(dashboards)
app.add_typer(slo)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tailbreak {harness.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version_wanted: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors become their message and their exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what was started is stopped
    try:
        code = app(standalone_mode=False)
    except TailbreakError as error:
        _leave(str(error), error.exit_code)
    except UsageProblem as error:
        error.show()
        sys.exit(error.exit_code)
    except ImportError as error:
        if error.name != "TAILBREAK_ISA":
            raise
        _leave(str(error), ExitCode.INPUT_OR_SETUP)
    except OSError as error:
        _leave(str(error), ExitCode.INPUT_OR_SETUP)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    if code == INTERRUPTED:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second one must not change the exit code
        _leave("interrupted", ExitCode.INPUT_OR_SETUP)
    sys.exit(code or 0)


def _leave(message: str, code: ExitCode) -> NoReturn:
    with contextlib.suppress(OSError):
        typer.echo(f"tailbreak: {message}", err=True)
    sys.stdout = None  # a full device must not fail the exit as well
    sys.exit(int(code))


if __name__ == "__main__":
    main()
