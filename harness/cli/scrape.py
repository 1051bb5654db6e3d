"""`tailbreak scrape`: what metrics endpoints say, in one vocabulary, and whether to believe it."""

import json
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.result_file import check_folder, check_whole

if TYPE_CHECKING:
    from harness.importers.metrics_source import MetricsSource
    from harness.records.telemetry import Reading


def scrape(
    urls: Annotated[
        list[str],
        typer.Argument(
            help="Metrics endpoints, such as http://127.0.0.1:8000/metrics.", metavar="URL..."
        ),
    ],
    seconds: Annotated[
        float, typer.Option(help="How long to look.", metavar="N", min=0, max=86_400)
    ] = 5.0,
    every: Annotated[
        float, typer.Option(help="Seconds between two scrapes.", metavar="S", min=0.1, max=3600)
    ] = 1.0,
    out: Annotated[
        Path | None,
        typer.Option(help="Write every sample as a run's telemetry.", metavar="FILE.parquet"),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write all figures and doubts.", metavar="FILE")
    ] = None,
) -> None:
    """Look at metrics endpoints and say what they tell, in one vocabulary for every server.

    Knows vLLM (old names and new), SGLang, Text Generation Inference, llama.cpp, TensorRT-LLM,
    Triton and the bundled server; of others it says what is there. Tells what cannot be believed:
    counters that several processes answer in turn, totals that grow while idle, missing quantities.

    Example: tailbreak scrape http://127.0.0.1:8000/metrics --seconds 10

    Example: tailbreak scrape http://127.0.0.1:8000 http://127.0.0.1:9400 --out telemetry.parquet
    """
    from harness.cli.scrape_table import endpoint_json, show_endpoint
    from harness.findings.scraped import doubts_of, grows_idle
    from harness.importers.metrics_source import MetricsSource
    from harness.metrics.window import Telemetry
    from harness.records.telemetry import to_readings, write_telemetry

    check_folder("--json", json_file)
    check_whole("--out", out)
    sources = [MetricsSource(url) for url in urls]
    answers = [source.ask() for source in sources]
    rows = _look(sources, seconds, every)
    telemetry = Telemetry(to_readings(rows))
    told = []
    for source, answer in zip(sources, answers, strict=True):
        part = telemetry.of_source(source.name)
        doubts = [*doubts_of(part), *filter(None, [grows_idle(part)])]
        show_endpoint(source.url, answer, part, doubts)
        told.append(endpoint_json(source.url, answer, part, doubts))
    if json_file is not None:
        value = {"schema": 1, "endpoints": told}
        json_file.write_text(json.dumps(value, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    if out is not None:
        write_telemetry(out, rows)
        typer.echo(f"{len(rows)} rows: {out}")


def _look(sources: "Sequence[MetricsSource]", seconds: float, every: float) -> "list[Reading]":
    """Rows of some seconds of scrapes."""
    from harness.importers.watch import watching

    rows: list[Reading] = []
    with watching(sources, rows.extend, every_s=every), _waiting(seconds):
        time.sleep(seconds)
    return rows


@contextmanager
def _waiting(seconds: float) -> Iterator[None]:
    """A spinner, where someone watches."""
    from rich.console import Console

    console = Console(stderr=True)
    is_watched = sys.stderr.isatty()
    with console.status(f"looking for {seconds:g} s") if is_watched else nullcontext():
        yield
