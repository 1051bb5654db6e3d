"""`tailbreak truth`: a server whose latencies are known, to check measurements against."""

from pathlib import Path
from typing import Annotated

import typer


def truth(
    law: Annotated[Path, typer.Argument(help="Law file, such as scenarios/laws/jump.toml.")],
    port: Annotated[
        int,
        typer.Option(
            help="Port to listen on; 0 takes any free one.", metavar="N", min=0, max=65535
        ),
    ] = 8000,
    record: Annotated[
        Path | None,
        typer.Option(help="New file for one JSON line per answered request.", metavar="FILE"),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed instead of the law's.", metavar="N", min=0, max=2**63 - 1),
    ] = None,
    ends_with_stdin: Annotated[bool, typer.Option("--ends-with-stdin", hidden=True)] = False,
) -> None:
    """Serve a planted latency law, and record when each token really left.

    No model runs: a token is a word, and the law says when it is sent. GET /log tells, for each
    request, what was planted and the real send times on CLOCK_MONOTONIC. Loopback only.

    Example: tailbreak truth scenarios/laws/jump.toml --port 8000

    Example: tailbreak run scenarios/laws.toml --target http://127.0.0.1:8000

    Routes: /v1/chat/completions, /v1/completions, /v1/infer, /v1/models,
    /tokenize, /healthz, /log?after=N (docs/truth.md).
    """
    from harness.server.truth.law import read_law
    from harness.server.truth.serve import run_truth_server

    planted = read_law(law)
    if seed is not None:
        planted = planted.model_copy(update={"seed": seed})

    def announce(url: str) -> None:
        print(f"tailbreak truth: {planted.name} is planted at {url}", flush=True)

    run_truth_server(
        planted, port=port, record=record, announce=announce, ends_with_stdin=ends_with_stdin
    )
