"""`tailbreak capture`: watch one quantity, and keep everything of the moment in which it jumps."""

import time
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from harness.base.clock import SystemClock
from harness.base.errors import SetupError

if TYPE_CHECKING:
    from harness.importers.metrics_source import Answer, MetricsSource
    from harness.stats.jump import Jump

CAPTURES: Final = Path("reports/captures")
SHARE: Final = 0.01
LEAST_S: Final = 0.01
TRIALS: Final = 5
COOL_DOWN_S: Final = 30.0


def capture(
    url: Annotated[
        str, typer.Option(help="Metrics endpoint of the server to watch.", metavar="URL")
    ],
    metric: Annotated[
        str | None,
        typer.Option(
            help="Gauge, counter (its rate) or histogram (its P99) to watch, by the endpoint's "
            "own name or ours; without it the P99 of the first token, or else of the answer.",
            metavar="NAME",
        ),
    ] = None,
    pid: Annotated[
        int | None,
        typer.Option(help="Process whose stacks and /proc files are taken.", metavar="PID", min=1),
    ] = None,
    exporter: Annotated[
        str | None,
        typer.Option(help="Metrics endpoint of a GPU exporter, taken as well.", metavar="URL"),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(
            help="Seconds between two samples; without it the finest that costs under 1 %.",
            metavar="S",
            max=3600,
        ),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Stop after this time.", metavar="N", min=0)
    ] = None,
    out: Annotated[Path, typer.Option(help="Where snapshots go.", metavar="DIR")] = CAPTURES,
) -> None:
    """Watch a server's metrics and take one snapshot each time a quantity jumps.

    Three samples in a row more than 15 % above the median of the last 30, and beyond their scatter,
    are a jump. A snapshot holds the metrics before and now, an exporter's counters, PCIe and NVLink
    errors, stacks by py-spy, the state of the garbage collector and the process's /proc files, each
    with its time. Then 30 s of rest. Ctrl-C ends it.

    The period is the finest at which watching costs less than 1 % of a core; it is measured at the
    start and printed. A poll every 10 microseconds, as has been published, cannot be had: a page
    takes milliseconds, and NVML itself has new values at most every 100 ms.

    Example: tailbreak capture --url http://127.0.0.1:8000/metrics --pid 4711
    """
    from harness.importers.metrics_source import MetricsSource
    from harness.importers.quantity import choose_quantity

    if pid is not None and not Path(f"/proc/{pid}").exists():
        raise SetupError(f"--pid {pid}: no such process")
    with ExitStack() as stack:
        source, gpu = MetricsSource(url), MetricsSource(exporter) if exporter is not None else None
        for each in (source, gpu):
            stack.callback(each.close if each is not None else lambda: None)
        first = source.ask()
        name = choose_quantity(first, metric)
        cost_s = _cost_s(source)
        period_s = _period_s(every, cost_s)
        typer.echo(
            f"watching {name} of {source.url} every {period_s:.3g} s: a sample costs "
            f"{cost_s * 1e3:.2g} ms, {cost_s / period_s:.2%} of a core"
        )
        watch = _Watch(source, gpu, pid, name, period_s, cost_s, out)
        with suppress(KeyboardInterrupt):  # how a watch without an end is ended
            watch.run(first, seconds)
    typer.echo(f"{watch.n_samples} samples, {watch.n_snapshots} snapshots")
    if watch.n_failed:
        typer.echo(f"{watch.n_failed} times no answer: {watch.failure}", err=True)


def _cost_s(source: "MetricsSource") -> float:
    """Processor time of a sample, median; to write the page costs its server about as much."""
    costs = []
    for _ in range(TRIALS):
        before = time.process_time()
        source.ask()
        costs.append(time.process_time() - before)
    return sorted(costs)[TRIALS // 2]


def _period_s(wanted: float | None, cost_s: float) -> float:
    """The finest period that costs less than `SHARE`, or the one that is wanted."""
    finest = max(LEAST_S, cost_s / SHARE)
    if wanted is not None and wanted < finest:
        raise SetupError(
            f"--every {wanted:g}: a sample costs {cost_s * 1e3:.2g} ms, so that less than "
            f"{finest:.3g} s takes more than {SHARE:.0%} of a core; give at least that, or leave "
            "it out"
        )
    return finest if wanted is None else wanted


class _Watch:
    """The loop, and what it has found."""

    def __init__(
        self,
        source: "MetricsSource",
        gpu: "MetricsSource | None",
        pid: int | None,
        name: str,
        period_s: float,
        cost_s: float,
        out: Path,
    ) -> None:
        from harness.stats.jump import JumpWatch

        self.n_samples, self.n_snapshots, self.n_failed, self.failure = 0, 0, 0, ""
        self._source, self._gpu, self._pid, self._name = source, gpu, pid, name
        self._period_s, self._cost_s, self._out = period_s, cost_s, out
        self._jumps, self._clock = JumpWatch(), SystemClock()
        self._gpu_before = gpu.ask() if gpu is not None else None

    def run(self, first: "Answer", seconds: float | None) -> None:
        """Sample until the time is over."""
        from harness.importers.quantity import sample

        before, usual, rests_until = first, first, 0.0
        began = time.monotonic()
        while seconds is None or time.monotonic() - began < seconds:
            time.sleep(self._period_s)
            now = self._ask()
            if now is None:
                continue
            value = sample(self._name, before, now)
            self.n_samples += value is not None
            jump = self._jumps.add(value)
            if jump is not None and time.monotonic() >= rests_until:
                self._snapshot(jump, usual, now)
                rests_until = time.monotonic() + COOL_DOWN_S
            if value is not None and not self._jumps.is_beyond:
                usual = now
            before = now

    def _ask(self) -> "Answer | None":
        """The next answer; None where none comes: it may come again."""
        try:
            return self._source.ask()
        except SetupError as error:
            self.n_failed, self.failure = self.n_failed + 1, str(error)
            return None

    def _snapshot(self, jump: "Jump", usual: "Answer", now: "Answer") -> None:
        from harness.importers.snapshot import take_snapshot

        time_s = self._clock.realtime_ns() / 1e9
        stem = datetime.fromtimestamp(time_s, UTC).strftime("%Y%m%d-%H%M%S")
        folder = self._out / f"{stem}-{''.join(c if c.isalnum() else '-' for c in self._name)[:60]}"
        take_snapshot(folder, self._told(jump, usual, now), self._parts(usual, now), self._clock)
        self.n_snapshots += 1
        shown = ", ".join(f"{value:.4g}" for value in jump.samples)
        typer.echo(f"{self._name}: {shown} above {jump.baseline:.4g}: {folder}")

    def _told(self, jump: "Jump", usual: "Answer", now: "Answer") -> dict[str, Any]:
        return {
            "metric": self._name, "url": self._source.url, "pid": self._pid,
            "samples": list(jump.samples), "baseline": jump.baseline, "limit": jump.limit,
            "period_s": self._period_s, "cost_s": self._cost_s,
            "before_unix_ns": usual.time_unix_ns, "now_unix_ns": now.time_unix_ns,
        }  # fmt: skip

    def _parts(self, usual: "Answer", now: "Answer") -> "list[Any]":
        """What perishes first is taken first."""
        from harness.importers import snapshot
        from harness.importers.snapshot import Part

        parts, pid, gpu, gpu_before = [], self._pid, self._gpu, self._gpu_before
        if pid is not None:
            parts += [
                Part(name="stacks.txt", make=lambda: snapshot.stacks(pid)),
                Part(name="process.txt", make=lambda: snapshot.process_files(pid)),
            ]
        if gpu is not None and gpu_before is not None:
            then = gpu_before.page
            parts.append(Part(name="exporter.txt", make=lambda: snapshot.page_text(gpu.ask().page)))
            parts.append(
                Part(name="links.txt", make=lambda: snapshot.link_errors(then, gpu.ask().page))
            )
        return [
            *parts,
            Part(name="metrics-before.txt", make=lambda: snapshot.page_text(usual.page)),
            Part(name="metrics.txt", make=lambda: snapshot.page_text(now.page)),
            Part(name="garbage.txt", make=lambda: snapshot.garbage_state(usual, now)),
        ]
