"""`summary.md`: the report in at most 40 lines of Markdown, for a terminal or a CI comment."""

import re
from collections.abc import Sequence
from typing import Final

from harness.findings.baseline_words import ratio_words
from harness.findings.fidelity import told_answers
from harness.report import grid, quantity, validity, words
from harness.report.caveats import gather_caveats
from harness.report.comparison import counted
from harness.report.ledger import build_ledger
from harness.report.quantity import Unit
from harness.report.schema import Breakpoint, Cell, Report
from harness.report.table import failed_requests, quantile_key
from harness.report.text import instant, line
from harness.report.why import why_lines

MAX_LINES: Final = 40
_BREAKS_SHOWN: Final = 10
_BREAKS_BESIDE: Final = 2
"""Where a ledger takes the room."""
_CELLS_SHOWN: Final = 5
_SETS_SHOWN: Final = 10


def render_summary(report: Report) -> str:
    """Verdict, validity, breakpoints and the worst cells."""
    lines = [*_verdict(report), "", *_validity(report), "", *_answers(report), *_baseline(report)]
    ledger = _ledger(report)
    lines += [*_breakpoints(report, _BREAKS_BESIDE if ledger else _BREAKS_SHOWN), ""]
    lines += [*_why(report), *(ledger or _worst_cells(report)), "", *_footer(report)]
    assert len(lines) <= MAX_LINES, "each part is bounded"
    return "\n".join(lines) + "\n"


def _verdict(report: Report) -> list[str]:
    run = report.run
    return [
        f"# {words.VERDICTS[report.verdict.status]}: {_plain(run.title or run.scenario)}",
        "",
        _plain(report.verdict.text, 800),
        "",
        (
            f"- Run {_code(run.id)} ({run.status}), scenario {_code(run.scenario)}, "
            f"started {_plain(instant(run.started))}"
        ),
        f"- Target {_code(run.target)}",
        f"- {_size(report)}",
    ]


def _size(report: Report) -> str:
    cells = quantity.many(len(report.cells), "cell")
    rounds = f", {len(report.rounds)} rounds" if report.rounds else ""
    return f"{quantity.many(report.run.n_requests, 'request')} in {cells}{rounds}"


def _validity(report: Report) -> list[str]:
    checks = validity.checks(report)
    doubts = [c for c in checks if c.mark == "doubt"]
    text = "; ".join(f"{c.name}: {c.value}" for c in doubts)
    lines = [
        f"**Validity.** Receive stamps: {validity.STAMP_WORDS[report.validity.stamps]}. "
        + (f"Doubts: {text}." if doubts else "No figure is past its limit.")
    ]
    caveats = report.validity.caveats
    lines += [""] if caveats else []
    lines += [f"- {_plain(caveat)}" for caveat in caveats[:2]]
    if len(caveats) > 2:
        lines.append(f"- and {len(caveats) - 2} more in report.html")
    return lines


def _answers(report: Report) -> list[str]:
    """Whether what is accelerated answers as the baseline does, in one line."""
    told = told_answers(report.comparison.answers) if report.comparison else []
    return [f"**Answers.** {_plain('. '.join(told), 300)}.", ""] if told else []


def _baseline(report: Report) -> list[str]:
    """The earlier run in one line; the verdict has the sentence."""
    found = report.baseline
    if found is None:
        return []
    ratios = [item for item in found.metrics if item.ratio is not None]
    worst = max(ratios, key=lambda item: item.ratio or 0.0, default=None)
    most = f"; highest ratio {ratio_words(worst)} in {worst.cell}" if worst else ""
    return [
        f"**Against run {_code(found.reference)}.** {counted(found.metrics)}{_plain(most)}.",
        "",
    ]


def _ledger(report: Report) -> list[str]:
    """A row for each set of features, in the asked quantile; empty without a ledger."""
    found = build_ledger(report)
    if found is None:
        return []
    quantile = found.entries[0].lines[0].quantile
    heads = [f"{metric} {quantile}" for metric in found.metrics]
    lines = [f"| Over the baseline | {' | '.join(heads)} |", "| --- " * (len(heads) + 1) + "|"]
    for entry in found.entries[:_SETS_SHOWN]:
        name = f"{entry.features} {entry.label}" if entry.over else entry.label
        place = f" at {entry.place}" if found.has_places and entry.place else ""
        figures = (f.marked if f else quantity.DASH for f in entry.lines[0].figures)
        lines.append(f"| {' | '.join(_plain(part, 120) for part in (name + place, *figures))} |")
    n_more = len(found.entries) - _SETS_SHOWN + found.left_out
    return [*lines, *(["", f"And {n_more} more in report.html."] if n_more > 0 else [])]


def _breakpoints(report: Report, n_most: int) -> list[str]:
    """A row for each curve that breaks or rises, none for the quiet ones: they are counted."""
    if not report.breakpoints:
        return ["No breakpoint was looked for."]
    loud = [b for b in report.breakpoints if b.kind != "none"]
    found = sorted(loud, key=lambda b: not words.is_found(b))
    quiet = _quiet_curves(report.breakpoints)
    if not found:
        return [quiet]
    lines = ["| Breakpoints | Where | Size | Behind it |", "| --- | --- | --- | --- |"]
    others = (*_answers(report), *_baseline(report), *_why(report))
    n_shown = max(1, n_most - len(others))
    lines += [_breakpoint_row(b) for b in found[:n_shown]]
    if len(found) > n_shown:
        quiet = f"And {len(found) - n_shown} more in report.html. {quiet}".strip()
    return [*lines, "", quiet] if quiet else lines


def _why(report: Report) -> list[str]:
    """The first cause that the telemetry shows, and what to do about it."""
    told = why_lines(report)
    more = f" And {len(told) - 1} more in report.html." if len(told) > 1 else ""
    return [f"**Why.** {_plain(told[0], 500)}{more}", ""] if told else []


def _quiet_curves(breakpoints: Sequence[Breakpoint]) -> str:
    """How many curves have no break, and on how many of them none could have been seen."""
    without = [b for b in breakpoints if b.kind == "none"]
    n_blind = sum(b.detectable_effect is None for b in without)
    if not without:
        return ""
    of = f"{len(without)} of {quantity.many(len(breakpoints), 'curve')}"
    if n_blind == len(without):
        return f"On {of} a break cannot be told from a smooth curve."
    blind = f"; on {n_blind} of them one cannot be told from a smooth curve" if n_blind else ""
    return f"No break on {of}{blind}."


def _breakpoint_row(b: Breakpoint) -> str:
    place = words.place(b.at)
    curve = [
        words.metric_quantile(b.metric, b.q),
        words.path_label(b.at),
        *([place] if place else []),
    ]
    size = words.size_interval(b) or quantity.DASH
    size += " per doubling" if b.kind == "kink" and b.effect is not None else ""
    component = quantity.DASH
    if b.component is not None:
        share = quantity.share_interval(b.share, b.share_low, b.share_high)
        component = words.phase_name(b.component) + (f", {share}" if share else "")
    cells = (", ".join(curve), f"{words.KINDS[b.kind]} {words.where(b)}", size, component)
    return "| " + " | ".join(_plain(cell, 120) for cell in cells) + " |"


def _worst_cells(report: Report) -> list[str]:
    name, rows = slowest_cells(report)
    if not rows:
        return [f"No cell has a {name}."]
    lines = [f"| Worst cells | {name} | n | Failed | State |", "| --- | --- | --- | --- | --- |"]
    return lines + ["| " + " | ".join(_plain(part, 120) for part in row) + " |" for row in rows]


def slowest_cells(report: Report) -> tuple[str, list[tuple[str, ...]]]:
    """The analysed quantile's name; for the slowest cells label, quantile, n, failed, state."""
    metric, quantile = report.analysis.metric, quantile_key(report.analysis.q)

    def known(cell: Cell) -> float:
        estimate = cell.metrics.get(metric, {}).get(quantile)
        if estimate is None:
            return 0.0
        return estimate.value or estimate.low or 0.0

    worst = [cell for cell in sorted(report.cells, key=known, reverse=True) if known(cell) > 0]
    varying = list(grid.varying_factors(report.cells))
    rows: list[tuple[str, ...]] = []
    for cell in worst[:_CELLS_SHOWN]:
        estimate = cell.metrics[metric][quantile]
        text = quantity.duration_interval(
            estimate.value, estimate.low, estimate.high, _unit(known(worst[0]))
        )
        row = (
            grid.cell_label(cell, varying),
            text or quantity.DASH,
            quantity.count(cell.n),
            quantity.count(failed_requests(cell)),
            words.marked_state(cell.state),
        )
        rows.append(row)
    return f"{words.METRICS[metric]} {quantile.upper()}", rows


def _unit(largest: float) -> Unit:
    return quantity.shared_unit(largest)


def _footer(report: Report) -> list[str]:
    """How to get this again, on which machine."""
    n = len(gather_caveats(report))
    again = report.reproduce
    machine = [again.environment.get(name, "") for name in ("cpu", "os")]
    cores = again.environment.get("cores")
    said = [part for part in (machine[0], f"{cores} cores" if cores else "", machine[1]) if part]
    return [
        f"**Again.** {_code(again.command)} (seed {again.seed})"
        + (f", measured on {_plain(', '.join(said))}." if said else "."),
        *([f"{quantity.many(n, 'caveat')} in report.html."] if n else []),
    ]


def _plain(text: str, limit: int = 200) -> str:
    """Text that Markdown shows as it is: no link, no picture, no tag, no table bar."""
    return re.sub(r"([\\`*\[\]<>|#~!]|(?<!\w)_|_(?!\w))", r"\\\1", line(text, limit))


def _code(text: str) -> str:
    bounded = line(text, 300).replace("`", "'").replace("|", "\u00a6")
    return f"`{bounded or '-'}`"
