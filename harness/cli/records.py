"""`tailbreak records`: every request of a run, for other programs."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from harness.base.errors import SetupError
from harness.cli.result_file import check_whole

if TYPE_CHECKING:
    import pyarrow as pa

    from harness.records.run import RunFolder

DERIVED = ("ttft_s", "ttfo_s", "tpot_s", "e2e_s", "service_ttft_s", "service_e2e_s")
"""Latencies of `harness.metrics.latency` that have one value a request."""
STAMPS = (
    "intended_ns", "sent_ns", "first_token_ns", "first_output_ns", "done_ns", "chunk_ns",
    "n_output_tokens",
)  # fmt: skip
"""What they are made of."""


class Format(StrEnum):
    """What is written."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def records(
    run: Annotated[Path, typer.Argument(help="Run folder, such as reports/runs/<id>.")],
    format_: Annotated[
        Format,
        typer.Option("--format", help="csv; json: one object a line; parquet: needs --output."),
    ] = Format.CSV,
    output: Annotated[
        Path | None,
        typer.Option(help="File to write instead of standard output.", metavar="FILE"),
    ] = None,
) -> None:
    """Write every request of a run: its stamps, counts, outcome, factors, latencies and trace id.

    Finished, running and killed runs work alike: what was acknowledged is there, each row once.
    Columns: docs/metrics.md. In CSV, lists and maps are JSON inside their cell.

    Example: tailbreak records reports/runs/20260101-120000-quickstart > requests.csv

    Example: tailbreak records reports/runs/20260101-120000-quickstart --format json | head -1
    """
    from harness.records.about import read_about
    from harness.records.columns import to_batch
    from harness.records.run import RunFolder
    from harness.records.store import iter_rows

    if format_ is Format.PARQUET and output is None:
        raise SetupError("--format parquet writes no text; name a file with --output FILE")
    check_whole("--output", output)
    folder = RunFolder.open(run)
    widen = _widening(folder)
    batches = (widen(batch) for batch in iter_rows(folder))
    n_rows = _write(format_, widen(to_batch([])).schema, batches, output)
    status = read_about(folder)["status"]
    if status != "complete" or n_rows == 0:
        typer.echo(
            f"{run}: {n_rows:,} row{'' if n_rows == 1 else 's'}; the run is {status}", err=True
        )


def _write(
    format_: Format, schema: "pa.Schema", batches: "Iterator[pa.RecordBatch]", output: Path | None
) -> int:
    """Write the rows; their number."""
    from harness.records.export import write_csv, write_json_lines, write_parquet

    if format_ is Format.PARQUET:
        assert output is not None
        return write_parquet(schema, batches, output)
    with _text_out(output) as out:
        if format_ is Format.CSV:
            return write_csv(schema, batches, out)
        return write_json_lines(batches, out)


@contextmanager
def _text_out(output: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that appears when it is whole."""
    if output is None:
        try:
            yield sys.stdout
            sys.stdout.flush()
        except BrokenPipeError:  # `| head` has seen enough
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  until the end
            raise typer.Exit(0) from None
        return
    part = output.with_name(f".{output.name}.part")
    try:
        with part.open("w", encoding="utf-8", newline="") as file:
            yield file
        part.replace(output)
    except OSError as error:
        raise SetupError(f"{output}: cannot be written: {error.strerror}") from error
    finally:
        part.unlink(missing_ok=True)


def _widening(folder: "RunFolder") -> "Callable[[pa.RecordBatch], pa.RecordBatch]":
    """The function that gives a batch its factors (from the plan), latencies and trace ids."""
    import pyarrow as pa

    from harness.metrics.latency import LATENCIES, dispatch_lag_s
    from harness.plan.codec import plan_from_json
    from harness.records.about import read_about
    from harness.records.store import KEY
    from harness.records.trace import trace_id

    run = read_about(folder)["id"]
    cells = {c.id: c.factors for c in plan_from_json(folder.read_json("plan.json")).cells}
    axes = {axis: _type_of(f[axis] for f in cells.values()) for f in cells.values() for axis in f}
    derived = {name: LATENCIES[name] for name in DERIVED}
    derived["dispatch_lag_s"] = dispatch_lag_s

    def widen(batch: pa.RecordBatch) -> pa.RecordBatch:
        ids = batch["cell"].to_pylist()
        rows = batch.select(STAMPS).to_pandas()
        arrays = [
            pa.array([_told(cells.get(i, {}).get(axis), axes[axis]) for i in ids], axes[axis])
            for axis in axes
        ]
        keys = zip(*(batch[name].to_pylist() for name in KEY), strict=True)
        traces = pa.array([trace_id(run, *key) for key in keys], pa.string())
        arrays += [pa.array(f(rows), pa.float64(), from_pandas=True) for f in derived.values()]
        return pa.RecordBatch.from_arrays(
            [*batch.columns, *arrays, traces],
            names=[*batch.schema.names, *axes, *derived, "trace_id"],
        )

    return widen


def _told(value: Any, type_: "pa.DataType") -> Any:
    """A factor's value in its column: words and truths of one axis as words."""
    return str(value).lower() if isinstance(value, bool) and type_ == "string" else value


def _type_of(values: Iterable[Any]) -> "pa.DataType":
    """The narrowest type that holds these factor values."""
    import pyarrow as pa

    kinds = {type(value) for value in values}
    if str in kinds:
        return pa.string()
    return pa.bool_() if kinds == {bool} else pa.int64() if kinds == {int} else pa.float64()
