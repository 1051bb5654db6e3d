"""`tailbreak fidelity`: does the accelerated path answer as the baseline does?"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.base.errors import ExitCode
from harness.cli.result_file import check_folder

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from harness.server.fidelity.check import OnStep


def fidelity(
    *,
    features: Annotated[
        list[str] | None,
        typer.Option(
            help="What X-MC-Accel would say: true, or a comma list; repeat for several paths.",
            metavar="LIST",
        ),
    ] = None,
    baseline_features: Annotated[
        str, typer.Option(help="What they are compared with.", metavar="LIST")
    ] = "false",
    model: Annotated[
        str, typer.Option(help="`tiny` (embedded) or a model folder, as for serve.", metavar="NAME")
    ] = "tiny",
    max_num_seqs: Annotated[
        int, typer.Option(help="Sequences that run together in one step.", metavar="N")
    ] = 8,
    max_model_len: Annotated[
        int | None,
        typer.Option(help="Longest context in tokens; default: the model's limit.", metavar="N"),
    ] = None,
    max_num_batched_tokens: Annotated[
        int, typer.Option(help="Tokens one step may run.", metavar="N")
    ] = 512,
    kv_tokens: Annotated[int, typer.Option(help="Token slots of KV memory.", metavar="N")] = 2560,
    threads: Annotated[
        int | None, typer.Option(help="Compute threads; default: all cores but one.", metavar="N")
    ] = None,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="NAME=DEVICE[,key=value...] as for serve, repeated: the first runs the baseline, "
            "`device_pool:bf16` names those of another dtype.",
            metavar="POOL",
        ),
    ] = None,
    draws: Annotated[
        int,
        typer.Option(
            help="Tokens drawn from each path for each way of sampling; 0 draws none.",
            metavar="N",
            min=0,
        ),
    ] = 4096,
    seed: Annotated[
        int, typer.Option(help="Of prompts, answers and draws.", metavar="N", min=0)
    ] = 0,
    to_json: Annotated[
        Path | None, typer.Option("--json", help="Also write the result here.", metavar="FILE")
    ] = None,
    no_progress: Annotated[
        bool,
        typer.Option("--no-progress", help="No progress bar; none anyway where no one watches."),
    ] = False,
) -> None:
    """Compare the accelerated path's answers with the baseline's, on the served model.

    Runs both paths in this process as `tailbreak serve` would run them with these options, over
    the same seeded prompts, and compares the distributions that tokens are drawn from, the tokens
    chosen for the same seeds, and many draws with the exact distribution. docs/fidelity.md says
    how to read it.

    Example: tailbreak fidelity

    Example: tailbreak fidelity --features paged_kv --features paged_kv,prefix_cache

    Exit code 0: every path is within its limits. 5: an answer differs; no speed of that path
    means anything then.
    """
    from harness.cli.fidelity_table import show_fidelity
    from harness.cli.serve import read_options
    from harness.records.run import RunFolder
    from harness.server.fidelity.measure import measure_fidelity
    from harness.server.options import default_threads

    check_folder("--json", to_json)
    values: dict[str, object] = {
        "model": model,
        "max_num_seqs": max_num_seqs,
        "max_model_len": max_model_len,
        "max_num_batched_tokens": max_num_batched_tokens,
        "kv_tokens": kv_tokens,
        "threads": default_threads() if threads is None else threads,
        "pool": pool or [],
    }
    found = measure_fidelity(
        read_options(values),
        features or ["true"],
        baseline=baseline_features,
        n_draws=draws,
        seed=seed,
        progress=_bar if sys.stderr.isatty() and not no_progress else _silence,
    )
    if to_json is not None:
        text = json.dumps(found.model_dump(mode="json", by_alias=True), indent=1)
        RunFolder(to_json.parent).write_text(to_json.name, text + "\n")
    show_fidelity(found)
    if any(path.problems for path in found.paths):
        raise typer.Exit(int(ExitCode.UNDECIDED))


def _silence(_: int) -> "AbstractContextManager[OnStep]":
    return nullcontext(lambda _: None)


@contextmanager
def _bar(n_steps: int) -> "Iterator[OnStep]":
    """A bar on stderr, one step a path and way of sampling."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("comparing answers", total=n_steps)
        n_begun = 0

        def on_step(text: str) -> None:
            nonlocal n_begun
            bar.update(task, description=text, completed=n_begun)
            n_begun += 1

        yield on_step
