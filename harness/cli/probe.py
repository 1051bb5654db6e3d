"""`tailbreak probe`: what a server is, and how well it can be measured."""

import json
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from harness.base.api_key import read_api_key
from harness.base.errors import ExitCode

if TYPE_CHECKING:
    from rich.table import Table

    from harness.load.probe.result import Probe


def probe(
    url: Annotated[str, typer.Argument(help="The server, such as http://127.0.0.1:8000.")],
    model: Annotated[
        str | None,
        typer.Option(
            help="Model to ask for; without it the one that the server lists.", metavar="NAME"
        ),
    ] = None,
    n: Annotated[
        int, typer.Option("-n", help="Measured requests.", metavar="N", min=1, max=1000)
    ] = 8,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            help="Name of the environment variable that holds the API key.", metavar="NAME"
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Everything found, as one JSON object.")
    ] = False,
) -> None:
    """Ask a server what it is, what it honours, and how well it can be measured.

    Sends N short requests one after another and some thirty smaller questions: which API streams,
    who counts tokens, which parameters are honoured, ignored or refused, how long answers take.

    Exit codes: 0 every measured request came whole, 1 some failed, 2 nothing answers there or the
    model must be chosen, 5 no streamed answer came whole.

    Example: tailbreak probe http://127.0.0.1:8000

    Example: tailbreak probe http://127.0.0.1:8000 --model NAME -n 20 --json
    """
    from harness.load.probe.listen import probe as ask

    key = None if api_key_env is None else read_api_key(api_key_env, "--api-key-env")
    with _telling(sys.stderr.isatty()) as say:
        found = ask(url, model=model, n=n, api_key=key, salt=secrets.token_hex(4), say=say)
    if as_json:
        typer.echo(json.dumps(found.to_json(), indent=1, allow_nan=False))
    else:
        _show(found)
    raise typer.Exit(int(_exit_code(found)))


@contextmanager
def _telling(is_watched: bool) -> Iterator[Callable[[str], None]]:
    """A spinner that says what is being asked, where someone watches."""
    if not is_watched:
        yield lambda _: None
        return
    from rich.console import Console
    from rich.markup import escape

    with Console(stderr=True).status("probing") as status:
        yield lambda text: status.update(f"probing: {escape(text)}")


def _exit_code(found: "Probe") -> ExitCode:
    if found.requests.n_ok == 0:
        return ExitCode.UNDECIDED
    if found.requests.n_ok < found.requests.n:
        return ExitCode.REQUESTS_FAILED
    return ExitCode.PASS


def _show(found: "Probe") -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console()
    for table in (_facts(found), _latencies(found), _parameters(found)):
        console.print(table)
    for line in found.advice:
        console.print(Text(f"advice: {line}"))
    for error in found.requests.errors:
        console.print(Text(f"failed: {error}", style="red"))


def _facts(found: "Probe") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(found.target), show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for name, text in _fact_lines(found):
        table.add_row(name, Text(text))
    return table


def _fact_lines(found: "Probe") -> Iterator[tuple[str, str]]:
    server, stream, lengths = found.server, found.stream, found.prompt_lengths
    version = f" {server.version}" if server.version else ""
    yield "server", f"{server.name}{version} ({server.evidence})"
    others = len(found.models) - (found.model in found.models)
    yield "model", found.model + (f" and {others} more listed" if others > 0 else "")
    for api in found.apis:
        yield "api", f"{api.name}: " + ("streams" if api.works else api.detail)
    yield "requests", f"{found.requests.n_ok} of {found.requests.n} came whole over {found.api}"
    route = f" by {lengths.route}, {lengths.overhead} added to each" if lengths.route else ""
    yield "prompt lengths", lengths.state + route
    yield "output tokens", f"counted by {stream.count_source or 'nobody'}"
    if stream.tokens_per_chunk is not None:
        yield "chunks", _stream_line(found)
    yield "connections", CONNECTIONS[found.keeps_connections]
    yield (
        "receive stamps",
        found.stamps + (f" ({found.stamps_reason})" if found.stamps_reason else ""),
    )
    accelerated = found.acceleration
    features = f": {', '.join(accelerated.features)}" if accelerated.features else ""
    yield "X-MC-Accel", f"{accelerated.state}{features} ({accelerated.detail})"
    if stream.anomalies:
        yield "oddities", ", ".join(f"{name} {n}" for name, n in sorted(stream.anomalies.items()))


CONNECTIONS = {True: "kept", False: "closed after each answer", None: "unclear"}


def _stream_line(found: "Probe") -> str:
    stream = found.stream
    parts = [f"{stream.tokens_per_chunk:.2f} tokens each"]
    if stream.late_read_share is not None:
        parts.append(f"{stream.late_read_share:.1%} read together with others")
    if stream.is_role_first:
        parts.append("an event without text comes first")
    return ", ".join(parts)


def _latencies(found: "Probe") -> "Table":
    from rich.table import Table

    table = Table(title="Latency, one request at a time, in ms")
    table.add_column("")
    for column in ("median", "least", "most", "samples"):
        table.add_column(column, justify="right")
    for name, figure in found.latency_s.items():
        values = (f"{value * 1e3:.2f}" for value in (figure.median, figure.low, figure.high))
        table.add_row(name.removesuffix("_s").upper(), *values, str(figure.n))
    return table


COLOURS = {"honoured": "green", "ignored": "yellow", "refused": "red", "unclear": "dim"}


def _parameters(found: "Probe") -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Parameters")
    for column in ("field", "verdict", "what was seen"):
        table.add_column(column)
    for parameter in found.parameters:
        state = Text(parameter.state, style=COLOURS[parameter.state])
        table.add_row(parameter.name, state, Text(parameter.detail))
    return table
