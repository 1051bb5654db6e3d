"""`tailbreak bench`: one command for each study of what the kernels cost and how exact they are."""

import typer

from harness.cli.bench_broadcast import broadcast
from harness.cli.bench_generators import generators
from harness.cli.bench_kernels import kernels
from harness.cli.bench_precision import precision
from harness.cli.bench_sync import sync
from harness.cli.verb import add_verb

bench = typer.Typer(
    name="bench",
    help="Studies of the kernels: what they cost, and how exact they are.",
    epilog="Example: tailbreak bench kernels --quick",
    no_args_is_help=True,
)

for _each in (kernels, precision, generators, broadcast, sync):
    add_verb(bench, _each)
