"""`report.html`: the whole report as one file that loads nothing.

`render_html` is a pure function: the same Report gives the same bytes, on any day and any machine.
The page allows itself no request (content security policy) and one script, known by its hash;
without scripts it is a plain document. All text from outside is escaped and bounded.
"""

import base64
import hashlib
import json
import os
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from harness.base.errors import RecordError
from harness.findings.baseline_words import baseline_sentence
from harness.findings.fidelity import told_answers
from harness.report import (
    caveats,
    charts,
    comparison,
    grid,
    heat_map,
    ledger,
    palette,
    quantity,
    round_table,
    server_table,
    step_table,
    summary,
    table,
    validity,
    why,
    words,
)
from harness.report.cells_csv import to_csv
from harness.report.schema import Report
from harness.report.svg import drawing
from harness.report.text import glued, instant, line, sentences, slug

VERDICT_TONES: Final = {
    "pass": "good",
    "improvement": "good",
    "regression": "bad",
    "requests_failed": "bad",
    "slo_missed": "bad",
    "undecided": "doubt",
    "suspect": "doubt",
    "invalid": "bad",
}
CAVEATS_SHOWN: Final = 40
VERDICT_LIMIT: Final = 8000
VERDICT_PARTS_SHOWN: Final = 6
_CONTINUED: Final = ("Behind it", "No single component")
_EMBEDDED_STRING_LIMITS: Final = (2000, 500, 120)
_EMBEDDED_LIMIT: Final = 3_000_000


def render_html(report: Report) -> str:
    """The page."""
    quantile = table.quantile_key(report.analysis.q)
    style = Markup(palette.style_sheet() + _template_text("report.css"))  # noqa: S704  ours
    script = _template_text("report.js")
    full_table = table.build_table(report)
    told = caveats.gather_caveats(report)
    verdict = verdict_parts(report.verdict.text)
    with drawing():
        context: dict[str, Any] = {
            "report": report,
            "style": style,
            "script": Markup(script),  # noqa: S704  ours
            "script_hash": _hash(script),
            "words": words,
            "quantity": quantity,
            "tone": VERDICT_TONES[report.verdict.status],
            "quantile": quantile,
            "metric_name": f"{words.METRICS[report.analysis.metric]} {quantile.upper()}",
            "verdict": verdict[:VERDICT_PARTS_SHOWN],
            "verdict_left_out": max(0, len(verdict) - VERDICT_PARTS_SHOWN),
            "checks": validity.checks(report),
            "mark_words": validity.MARK_WORDS,
            "heat_map": heat_map.build_heat_map(report, quantile),
            "planes": charts.plane_charts(report),
            "curve_sets": charts.curve_sets(report),
            "phases": charts.phase_set(report),
            "components": charts.component_charts(report),
            "why": why.build_why(report),
            "rounds": round_table.build_rounds(report),
            "steps": step_table.build_step_tables(report, quantile),
            "server": server_table.build_server_table(report),
            "answers": told_answers(report.comparison.answers) if report.comparison else (),
            "comparison": comparison.build_comparison(report),
            "ratios": charts.ratio_chart(report),
            "ledger": ledger.build_ledger(report),
            "has_paths": "accelerated" in grid.varying_factors(report.cells),
            "baseline": comparison.build_baseline(report),
            "baseline_said": report.baseline and baseline_sentence(report.baseline, report.cells),
            "table": full_table,
            "download_stem": f"tailbreak-{slug(report.run.id)}",
            "anchors": table.anchors(report),
            "report_json": _embedded(_report_data(report)),
            "table_csv": _embedded(to_csv(report)),
            "caveats": told[:CAVEATS_SHOWN],
            "caveats_left_out": max(0, len(told) - CAVEATS_SHOWN),
        }
        page = _environment().get_template("report.html.jinja").render(context)
    return page if page.endswith("\n") else page + "\n"


def verdict_parts(text: str) -> list[str]:
    """The verdict, one finding a part: a sentence about the cause stays with what it explains."""
    parts: list[str] = []
    for sentence in sentences(line(text, VERDICT_LIMIT)):
        if parts and sentence.startswith(_CONTINUED):
            parts[-1] += f" {sentence}"
        else:
            parts.append(sentence)
    return [line(part, 600) for part in parts] or ["No verdict text was given."]


def write_report(report: Report, folder: Path) -> Path:
    """Write report.json, summary.md and report.html; returns the path of the page.

    Raises:
        RecordError: a file cannot be written.
    """
    page = folder / "report.html"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / "report.json", report_json(report))
        _write(folder / "summary.md", summary.render_summary(report))
        _write(page, render_html(report))
    except OSError as error:
        raise RecordError(f"{folder}: the report cannot be written: {error.strerror}") from error
    return page


def report_json(report: Report) -> str:
    """`report.json` as written to disk."""
    data = report.model_dump(mode="json", by_alias=True)
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode() + "\n"  # half a surrogate pair is no text


def _write(path: Path, text: str) -> None:
    """All or nothing: a reader sees the old file or the new one."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with beside.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_template_text),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["line"] = line
    environment.filters["glued"] = glued
    environment.filters["instant"] = instant
    return environment


@lru_cache(maxsize=8)
def _template_text(name: str) -> str:
    return (files("harness.report") / "templates" / name).read_text(encoding="utf-8")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _report_data(report: Report) -> Any:
    """The report for the download, with texts shortened until it fits."""
    whole = report.model_dump(mode="json", by_alias=True)
    shortened = whole
    for limit in _EMBEDDED_STRING_LIMITS:
        shortened = _shorten(whole, limit)
        if len(json.dumps(shortened)) <= _EMBEDDED_LIMIT:
            break
    return shortened


def _shorten(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[:limit]}\u2026 [{len(value)} characters]"
    if isinstance(value, list):
        return [_shorten(item, limit) for item in value]
    if isinstance(value, dict):
        return {_shorten(key, limit): _shorten(item, limit) for key, item in value.items()}
    return value


def _embedded(value: Any) -> Markup:
    """JSON that no HTML parser can leave: `<`, `>`, `&` and line separators are escaped."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  cannot hold a tag
