"""`tailbreak incident`: a fault beside a normal time, why, and the load of it to send again."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from harness.base.clock import SystemClock
from harness.base.errors import SetupError
from harness.base.moment import utc, utc_span
from harness.cli.result_file import check_folder
from harness.cli.time_range import read_range

if TYPE_CHECKING:
    import pandas as pd

    from harness.metrics.window import Telemetry
    from harness.records.run import RunFolder
    from harness.report.incident import Incident
    from harness.scenario.replay import SeenLoad

Span = tuple[float, float]
_LABEL: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}=[^\n]{1,200}")


def incident(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="Run folder, or a file of tailbreak scrape --out, whose telemetry is read instead "
            "of a Prometheus."
        ),
    ] = None,
    normal: Annotated[
        str | None,
        typer.Option(
            help="A healthy time: FROM..TO, each ISO, unix, now, or such as -15m.", metavar="T..T"
        ),
    ] = None,
    fault: Annotated[
        str | None, typer.Option(help="The time of the fault, written alike.", metavar="T..T")
    ] = None,
    prometheus: Annotated[
        str | None, typer.Option(help="URL of a Prometheus that scraped it.", metavar="URL")
    ] = None,
    match: Annotated[
        list[str] | None,
        typer.Option(
            help="Read only series with this label, such as job=chat; may be given several times.",
            metavar="LABEL=VALUE",
        ),
    ] = None,
    grafana: Annotated[
        str | None,
        typer.Option(help="URL of a Grafana: a link to the fault's time is made.", metavar="URL"),
    ] = None,
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything found here.", metavar="FILE")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(help="Write a page for a ticket here.", metavar="FILE")
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option(
            help="Write a scenario here that sends the fault's load again.", metavar="FILE"
        ),
    ] = None,
    from_command: Annotated[
        str | None,
        typer.Option(
            help="Instead of windows: a hey or wrk command line, whose load goes into --replay.",
            metavar="LINE",
        ),
    ] = None,
) -> None:
    """Compare a fault with a normal time: what changed, what came first, and how to send it again.

    Every known metric is read in both windows. Changes are ranked by their size in units of the
    normal window's own noise; symptoms come in the order of their onset, and the earliest that no
    other explains is called the first cause. Times before now are counted from the end of a run.

    Example: tailbreak incident --normal -60m..-30m --fault -15m..now --prometheus
    http://127.0.0.1:9090 --replay replay.toml

    Example: tailbreak incident reports/runs/RUN --normal -5m..-3m --fault -2m..now

    Example: tailbreak incident scraped.parquet --normal -5m..-3m --fault -2m..now

    Example: tailbreak incident --from-command 'hey -z 30s -q 2 -c 8 http://127.0.0.1:8000'
    --replay replay.toml
    """
    for option, path in (("--json", json_file), ("--markdown", markdown), ("--replay", replay)):
        check_folder(option, path)
    if from_command is not None:
        if any((run, normal, fault, prometheus, match, grafana, json_file, markdown)):
            raise typer.BadParameter("--from-command takes --replay FILE and nothing else")
        _replay_command(from_command, replay)
        return
    if normal is None or fault is None or (run is None) == (prometheus is None):
        raise typer.BadParameter(
            "give --normal T..T and --fault T..T, and either --prometheus URL or a run folder "
            "(or a file of tailbreak scrape --out)"
        )
    from harness.report.incident import to_json, to_markdown
    from harness.scenario.replay import replay_toml

    if match and prometheus is None:
        raise typer.BadParameter("--match chooses series of a Prometheus: give --prometheus URL")
    source = _read(run, prometheus, normal, fault, _labels(match or ()))
    found = _compare(source, grafana)
    _show(found)
    if json_file is not None:
        json_file.write_text(to_json(found), encoding="utf-8")
    if markdown is not None:
        markdown.write_text(to_markdown(found), encoding="utf-8")
    if replay is not None:
        _write_replay(replay, replay_toml(_load(source)))


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Telemetry of both times; requests too, where a run has them."""

    name: str
    normal: Span
    fault: Span
    telemetry: "Telemetry"
    folder: "RunFolder | None" = None


def _labels(words: Sequence[str]) -> dict[str, str]:
    """What `--match` asks for."""
    found = dict(word.partition("=")[::2] for word in words)
    wrong = [word for word in words if not _LABEL.fullmatch(word)]
    if wrong:
        raise typer.BadParameter(
            f"got {wrong[0][:80]!r}, allowed LABEL=VALUE", param_hint="--match"
        )
    return found


def _read(
    run: Path | None, prometheus: str | None, normal: str, fault: str, match: Mapping[str, str]
) -> _Source:
    from harness.metrics.window import Telemetry

    if prometheus is not None:
        from harness.importers.prometheus_api import PrometheusApi
        from harness.importers.prometheus_telemetry import read_prometheus

        spans = _ranges(normal, fault, SystemClock().realtime_ns() / 1e9)
        frame = read_prometheus(PrometheusApi(prometheus), spans, match)
        source = _Source(
            name=prometheus, normal=spans[0], fault=spans[1], telemetry=Telemetry(frame)
        )
    else:
        from harness.records.run import RunFolder
        from harness.records.telemetry import read_telemetry_file

        assert run is not None
        folder = None if run.is_file() else RunFolder.open(run)
        frame = read_telemetry_file(run) if folder is None else _telemetry(folder)
        telemetry = Telemetry(frame)
        spans = _ranges(normal, fault, telemetry.span[1])
        source = _Source(
            name=str(run), normal=spans[0], fault=spans[1], telemetry=telemetry, folder=folder
        )
    _require_readings(source)
    return source


def _telemetry(folder: "RunFolder") -> "pd.DataFrame":
    from harness.records.telemetry import read_telemetry

    frame = read_telemetry(folder)
    if frame is None:
        raise SetupError(
            f"{folder.path} holds no telemetry: its target had no /metrics; name exporters with "
            "tailbreak run --scrape URL, or ask a Prometheus with --prometheus URL"
        )
    return frame


def _ranges(normal: str, fault: str, now_s: float) -> tuple[Span, Span]:
    spans = read_range(normal, "--normal", now_s), read_range(fault, "--fault", now_s)
    if max(start for start, _ in spans) < min(end for _, end in spans):
        raise typer.BadParameter(
            "--normal and --fault overlap: a time that is both is neither; give two apart"
        )
    return spans


def _require_readings(source: _Source) -> None:
    """An empty window is told and not compared."""
    for option, span in (("--normal", source.normal), ("--fault", source.fault)):
        window = source.telemetry.window(span)
        if not any(window.series(name) for name in source.telemetry.names if name != "up"):
            raise SetupError(
                f"{option}: {source.name} holds no reading from {utc_span(span)}; it has some from "
                f"{utc_span(source.telemetry.span)}"
            )


def _compare(source: _Source, grafana: str | None) -> "Incident":
    from harness.findings.changes import find_changes
    from harness.findings.diagnosis import diagnose
    from harness.findings.symptoms import Context
    from harness.report.incident import Incident, grafana_link

    windows = (source.telemetry.window(source.normal), source.telemetry.window(source.fault))
    return Incident(
        source=source.name,
        normal=source.normal,
        fault=source.fault,
        changes=find_changes(*windows),
        diagnosis=diagnose(Context(normal=windows[0], fault=windows[1])),
        link="" if grafana is None else grafana_link(grafana, source.fault),
    )


def _show(found: "Incident") -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from harness.report.incident import change_rows, sentences, symptom_rows

    console = Console()
    for said in sentences(found):
        console.print(Text(said))
    for title, heads, rows in (
        ("Symptoms, by onset", ("onset", "symptom", "seen", "may follow from"), symptom_rows),
        ("Changes", ("quantity", "normal", "fault", "change", "effect"), change_rows),
    ):
        table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
        for place, head in enumerate(heads):
            is_figure = title == "Changes" and place > 0
            table.add_column(head, justify="right" if is_figure else "left", overflow="fold")
        for row in rows(found):
            table.add_row(*map(Text, row))
        if table.row_count:
            console.print(table)
    if found.link:
        typer.echo(found.link)


def _load(source: _Source) -> "SeenLoad":
    """The fault's load: by the servers' counters, and by single requests where a run has them."""
    from harness.findings.load_shape import load_of_rows, load_of_window

    start, end = source.fault
    seen = load_of_window(source.telemetry.window(source.fault), f"{source.name}, {utc(start)}")
    if source.folder is None:
        return seen
    from harness.cli.analyse import read_evidence

    evidence = read_evidence(source.folder)
    return load_of_rows(evidence.between(start, end), end - start, seen)


def _replay_command(line: str, replay: Path | None) -> None:
    from harness.importers.load_command import read_command
    from harness.scenario.replay import replay_toml

    if replay is None:
        raise typer.BadParameter("--from-command needs --replay FILE to write its scenario to")
    _write_replay(replay, replay_toml(read_command(line)))


def _write_replay(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    typer.echo(f"replay: tailbreak run {path}")
