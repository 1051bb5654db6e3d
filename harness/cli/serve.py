"""`tailbreak serve`: the reference inference server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from harness.base.errors import SetupError
from harness.server.options import LogLevel, ServerOptions, default_threads


def serve(
    *,
    model: Annotated[
        str,
        typer.Option(
            help="`tiny` (embedded) or a folder with a Llama-layout model.", metavar="NAME"
        ),
    ] = "tiny",
    host: Annotated[
        str,
        typer.Option(
            help="Address to bind; other than loopback needs a key or --insecure.", metavar="HOST"
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes any free one.", metavar="N")
    ] = 8000,
    max_num_seqs: Annotated[
        int, typer.Option(help="Sequences that run together in one step.", metavar="N")
    ] = 8,
    max_model_len: Annotated[
        int | None,
        typer.Option(help="Longest context in tokens; default: the model's limit.", metavar="N"),
    ] = None,
    max_num_batched_tokens: Annotated[
        int,
        typer.Option(help="Tokens one step may run; longer prompts come in chunks.", metavar="N"),
    ] = 512,
    kv_tokens: Annotated[
        int, typer.Option(help="Token slots of KV memory, the same for both paths.", metavar="N")
    ] = 2560,
    threads: Annotated[
        int | None, typer.Option(help="Compute threads; default: all cores but one.", metavar="N")
    ] = None,
    max_queued_requests: Annotated[
        int,
        typer.Option(
            help="Sequences that may wait for a slot; more are answered 429 Retry-After.",
            metavar="N",
        ),
    ] = 256,
    pool: Annotated[
        list[str] | None,
        typer.Option(
            help="An engine of its own, NAME=DEVICE[,key=value...], repeatable; keys seqs, "
            "batched_tokens, kv_tokens, threads, dtype (docs/server.md). Default: cpu=cpu.",
            metavar="POOL",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seeds requests that bring none, in order of arrival; default: fresh.",
            metavar="N",
        ),
    ] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="SQLite file for one row per request; default: temporary.", metavar="FILE"
        ),
    ] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            help="Name of the environment variable that holds the API key.", metavar="NAME"
        ),
    ] = None,
    client_timeout: Annotated[
        float,
        typer.Option(
            help="Seconds a client may take to send a request or leave an answer unread.",
            metavar="S",
        ),
    ] = 30.0,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Allow any host to connect without a key.")
    ] = False,
    genai_metrics: Annotated[
        bool,
        typer.Option("--genai-metrics", help="Add OpenTelemetry's gen_ai_* names to /metrics."),
    ] = False,
    faults: Annotated[
        str,
        typer.Option(
            help="Plant faults, to check a harness: a comma list of PHASE:X%, stall:D@P, gc:D@P, "
            "exhaust:D@P, connections:D@P, store:D, garbage:XMB/s, alloc:1/N, drop:1/N, error:1/N, "
            "such as attention:40%,stall:300ms@5s "
            "(docs/server.md).",
            metavar="LIST",
        ),
    ] = "",
    log_level: Annotated[
        LogLevel,
        typer.Option(help="debug, info, warning or error.", metavar="LEVEL"),
    ] = "warning",
    ends_with_stdin: Annotated[bool, typer.Option("--ends-with-stdin", hidden=True)] = False,
) -> None:
    """Serve the bundled language model over an OpenAI-compatible API.

    Built to be measured: every answer says where its time went (timings).
    The header X-MC-Accel chooses the path: absent or false for the baseline,
    true for every exact feature of this build, or a comma list; lossy ones must be named.

    Example: tailbreak serve --port 8000

    Example: curl http://127.0.0.1:8000/v1/infer -d '{"prompt": "Once upon a time"}'

    Example: KEY=secret tailbreak serve --host 0.0.0.0 --api-key-env KEY

    Routes: /v1/infer, /v1/chat/completions, /v1/completions, /v1/models,
    /tokenize, /detokenize, /metrics, /healthz, /readyz, /openapi.json.

    More sequences than --max-num-seqs and --max-queued-requests together are
    answered 429 with Retry-After; bad fields 400 with the field, the value and
    the range. Ctrl-C or SIGTERM ends it: streams get two seconds (docs/server.md).
    """
    values = {
        "model": model,
        "host": host,
        "port": port,
        "max_num_seqs": max_num_seqs,
        "max_model_len": max_model_len,
        "max_num_batched_tokens": max_num_batched_tokens,
        "kv_tokens": kv_tokens,
        "threads": default_threads() if threads is None else threads,
        "max_queued_requests": max_queued_requests,
        "pool": pool or [],
        "seed": seed,
        "journal": journal,
        "api_key_env": api_key_env,
        "client_timeout": client_timeout,
        "insecure": insecure,
        "genai_metrics": genai_metrics,
        "faults": faults,
        "log_level": log_level,
    }
    _serve(read_options(values), ends_with_stdin=ends_with_stdin)


def read_options(values: dict[str, object]) -> ServerOptions:
    """Validate; every problem is told by the option's name.

    Raises:
        SetupError: with all of them.
    """
    try:
        return ServerOptions.model_validate(values)
    except ValidationError as error:
        problems = [
            f"--{str(detail['loc'][0]).replace('_', '-')}: got {detail['input']}, "
            f"{detail['msg'].removeprefix('Value error, ')}"
            for detail in error.errors()
        ]
        raise SetupError("; ".join(problems)) from error


def _serve(options: ServerOptions, *, ends_with_stdin: bool) -> None:
    # Imported late: `tailbreak --help` must not wait for the HTTP stack.
    from harness.server.front_process import run_server
    from kernels import cpu

    if cpu.PROBLEM is not None:
        print(f"tailbreak serve: slower than it could be: {cpu.PROBLEM}", file=sys.stderr)

    def announce(url: str) -> None:
        print(f"tailbreak serve: {options.model_name} is ready at {url}", flush=True)

    run_server(options, announce, ends_with_stdin=ends_with_stdin)
