"""What the target said of itself while each cell was measured, in canonical quantities.

Its own account stands beside the client's and decides nothing: latencies are the client's, on
receive stamps. What the server does not say, or too few scrapes fell into, is null.
"""

from harness.findings.cells import number
from harness.findings.evidence import Evidence
from harness.findings.finding import ServerFigures, ServerSaid
from harness.metrics.catalogue import canonical, server
from harness.metrics.catalogue.telemetry import UP
from harness.metrics.window import Telemetry, Window
from harness.records.telemetry import TARGET

MIN_SCRAPES = 2


def server_said(evidence: Evidence) -> ServerSaid | None:
    """The table; None where the target was not scraped or said nothing that is known."""
    if evidence.telemetry is None or TARGET not in evidence.telemetry.sources:
        return None
    target = evidence.telemetry.of_source(TARGET)
    engines = target.series(canonical.ENGINE.name)
    if not engines:
        return None
    cells = [
        _figures(cell.id, target, evidence.unix_spans(evidence.cell_measured(cell)))
        for cell in evidence.plan.cells
    ]
    return ServerSaid(engine=engines[0].labels.get("engine"), cells=cells, caveats=_caveats(cells))


def _caveats(cells: list[ServerFigures]) -> list[str]:
    short = sum(cell.n_scrapes < MIN_SCRAPES for cell in cells)
    return (
        [f"{short} of {len(cells)} cells were measured for less than two scrapes: no figures there"]
        if short
        else []
    )


def _figures(cell: str, target: Telemetry, spans: list[tuple[float, float]]) -> ServerFigures:
    window = target.window(*spans) if spans else None
    n_scrapes = len(window.values(UP.name)) if window is not None else 0
    asked = window if n_scrapes >= MIN_SCRAPES else None
    return ServerFigures(
        cell=cell,
        n_scrapes=n_scrapes,
        kv_usage_mean=asked and number(asked.mean(canonical.KV_USAGE.name)),
        kv_usage_max=asked and number(asked.maximum(canonical.KV_USAGE.name)),
        running_mean=asked and number(asked.mean(canonical.RUNNING.name)),
        waiting_mean=asked and number(asked.mean(canonical.WAITING.name)),
        waiting_max=asked and number(asked.maximum(canonical.WAITING.name)),
        prefix_hit_share=asked and number(_prefix_hits(asked)),
        output_tokens_per_s=asked and number(asked.rate(canonical.OUTPUT_TOKENS.name)),
        preemptions=asked and number(asked.increase(canonical.PREEMPTIONS.name)),
        queue_p99_s=asked and number(asked.quantile(canonical.QUEUE.name, 0.99)),
        gc_pause_share=asked and number(_gc_share(asked)),
    )


def _prefix_hits(window: Window) -> float | None:
    """Of the prompt tokens looked up, those found; or the server's own share of them."""
    asked = window.increase(canonical.PREFIX_QUERIES.name)
    found = window.increase(canonical.PREFIX_HITS.name)
    if asked is None or found is None:
        return window.mean(canonical.PREFIX_RATIO.name)
    return found / asked if asked > 0 else None


def _gc_share(window: Window) -> float | None:
    """Share of time in searches for garbage, of the process that pauses most."""
    name = server.GC_PAUSE.name + "_sum"
    processes = {labels.get("process", "") for labels in window.series(name)}
    shares = [window.rate(name, process=process) for process in processes]
    return max((share for share in shares if share is not None), default=None)
