"""The live bar of a run: cells done, current tail, time left, as the load process tells."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from harness.base.errors import RecordError
from harness.records.run import RunFolder


@contextmanager
def follow(folder: RunFolder) -> Iterator[Callable[[], None]]:
    """A bar on stderr and the function that refreshes it from `progress.json`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[live]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing prompts", total=None, live="")

        def refresh() -> None:
            state = _read(folder)
            if state is not None:
                bar.update(
                    task,
                    description=f"segment {state['segments_done']}/{state['segments']}",
                    completed=state["requests_done"],
                    total=state["requests"],
                    live=_live(state),
                )

        yield refresh


def _read(folder: RunFolder) -> dict[str, Any] | None:
    if not folder.has("progress.json"):
        return None
    try:
        state: dict[str, Any] = folder.read_json("progress.json")
    except RecordError:
        return None
    return state


def _live(state: dict[str, Any]) -> str:
    factors = " ".join(f"{name}={value}" for name, value in state.get("factors", {}).items())
    tail = state.get("live", {}).get("ttft_p99_s")
    shown = f" TTFT P99 {tail * 1e3:.0f} ms" if tail is not None else ""
    failed = f" {state['failed']} failed" if state.get("failed") else ""
    return f"{factors}{shown}{failed}"
