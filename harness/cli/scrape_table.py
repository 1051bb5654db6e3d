"""What one endpoint said, as a table for people and as JSON for programs."""

import math
from typing import TYPE_CHECKING, Any, Final

from harness.metrics.catalogue.canonical import CANONICAL_METRICS, ENGINE
from harness.metrics.catalogue.metric import Metric

if TYPE_CHECKING:
    from rich.table import Table

    from harness.importers.metrics_source import Answer
    from harness.metrics.window import Telemetry, Window

_QUANTILES: Final = {"p50": 0.5, "p99": 0.99}
_COLUMNS: Final = ("now", "per_s", "mean", *_QUANTILES)
_NAMES_SHOWN: Final = 12


def endpoint_json(
    url: str, answer: "Answer", telemetry: "Telemetry", doubts: list[str]
) -> dict[str, Any]:
    """Everything found; what the endpoint does not tell is null or not there."""
    translated = answer.translated
    scrapes = telemetry.up(telemetry.sources[0])
    return {
        "url": url,
        "engine": translated.engine.name if translated is not None else None,
        "n_scrapes": len(scrapes),
        "n_failed": sum(not is_up for _, is_up in scrapes),
        "n_series": len(answer.page.values),
        "quantities": [
            {
                "name": metric.name,
                "type": metric.type,
                "unit": metric.unit,
                "said_by": translated.origins[metric.name],
                **_figures(metric, telemetry.window()),
            }
            for metric in _told(answer)
        ]
        if translated is not None
        else [],
        "odd_lines": dict(answer.page.anomalies),
        "doubts": doubts,
        "notes": list(translated.engine.notes) if translated is not None else [],
    }


def show_endpoint(url: str, answer: "Answer", telemetry: "Telemetry", doubts: list[str]) -> None:
    """The table, then what is to be known and doubted."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    if answer.translated is None:
        names = sorted({name for name, _ in answer.page.values})
        shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
        told = f"{url}: of no inference server that is known, {len(answer.page.values)} series"
        console.print(Text(f"{told}; {len(names)} names: {shown}"))
    else:
        console.print(_table(url, answer, telemetry))
        for note in answer.translated.engine.notes:
            console.print(Text(f"note: {note}"))
    for kind, count in answer.page.anomalies.items():
        console.print(Text(f"odd: {count} {kind}"))
    for doubt in doubts:
        console.print(Text(f"doubt: {doubt}", style="yellow"))


def _table(url: str, answer: "Answer", telemetry: "Telemetry") -> "Table":
    from rich.table import Table
    from rich.text import Text

    kind = answer.translated.engine.title if answer.translated is not None else ""
    table = Table(title=Text(f"{url}: {kind}, {len(answer.page.values)} series"))
    table.add_column("quantity", overflow="fold")
    for column in ("now", "per s", "mean", "P50", "P99"):
        table.add_column(column, justify="right")
    table.add_column("said by", overflow="fold")
    for metric in _told(answer):
        figures = _figures(metric, telemetry.window())
        origin = answer.translated.origins[metric.name] if answer.translated is not None else ""
        texts = [_text(figures[column], metric) for column in _COLUMNS]
        table.add_row(metric.name.removeprefix("llm:"), *texts, Text(origin))
    return table


def _told(answer: "Answer") -> list[Metric]:
    """Quantities that the endpoint tells."""
    origins = answer.translated.origins if answer.translated is not None else {}
    return [metric for metric in CANONICAL_METRICS if metric.name in origins and metric != ENGINE]


def _figures(metric: Metric, window: "Window") -> dict[str, float | None]:
    """Now, growth per second, mean, P50 and P99, each where it means something."""
    found: dict[str, float | None] = dict.fromkeys(_COLUMNS)
    if metric.type == "gauge":
        found |= {"now": _last(metric.name, window), "mean": window.mean(metric.name)}
    elif metric.type == "counter":
        found |= {"now": _last(metric.name, window), "per_s": window.rate(metric.name)}
    else:
        n, total = (window.increase(f"{metric.name}_{part}") for part in ("count", "sum"))
        found |= {name: window.quantile(metric.name, q) for name, q in _QUANTILES.items()}
        found |= {
            "per_s": window.rate(f"{metric.name}_count"),
            "mean": total / n if n and total is not None else None,
        }
    return {name: value if value is None or math.isfinite(value) else None
            for name, value in found.items()}  # fmt: skip


def _last(name: str, window: "Window") -> float | None:
    """The latest values of all series together."""
    held = [each.held[-1] for each in window.telemetry.series(name)]
    known = [float(value) for value in held if not math.isnan(value)]
    return sum(known) if known else None


def _text(value: float | None, metric: Metric) -> str:
    if value is None:
        return "\u2013"
    if metric.unit == "ratio":
        return f"{value:.1%}"
    return f"{value:,.0f}" if value == round(value) or abs(value) >= 1000 else f"{value:.3g}"
