"""An incident in words: what changed, which symptoms came first, as a table's rows, Markdown, JSON.

Text from metrics (names, labels) comes from outside: bounded here, escaped for Markdown.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlencode

from harness.base.moment import utc_span
from harness.findings.changes import Change, Changes
from harness.findings.diagnosis import Diagnosis
from harness.findings.quantity import change, measured, number
from harness.findings.symptoms import Figure, Symptom
from harness.findings.text import line, short

SHOWN: Final = 20
BOARD: Final = "tailbreak-server"
Span = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A fault beside a normal time.

    Attributes:
        source: where the telemetry came from.
        link: a Grafana board of the fault's time; empty where no Grafana was named.
    """

    source: str
    normal: Span
    fault: Span
    changes: Changes
    diagnosis: Diagnosis
    link: str = ""


def grafana_link(url: str, span: Span) -> str:
    """The server's board at this time, half its length shown on each side."""
    margin = (span[1] - span[0]) / 2
    asked = {"from": round((span[0] - margin) * 1e3), "to": round((span[1] + margin) * 1e3)}
    return f"{url.rstrip('/')}/d/{BOARD}?{urlencode(asked)}"


def sentences(incident: Incident) -> list[str]:
    """The answer: the first cause, what follows from it, how much was looked at."""
    first, found = incident.diagnosis.first_cause, incident.diagnosis.symptoms
    changes = incident.changes
    looked = (
        f"{len(changes.changed)} of {changes.n_compared:,} quantities changed beyond the noise of "
        "the normal window."
    )
    if changes.n_compared == 0:
        looked = "Too few readings in both windows to compare any quantity."
    if changes.n_left_out:
        looked += f" {changes.n_left_out:,} more were not looked at: --match chooses."
    if first is None:
        return ["No symptom that is known here.", looked]
    said = [
        f"First cause: {first.name}. {first.seen}",
        f"Evidence: {figures_words(first.evidence)}.",
        f"Cause: {first.cause}",
        f"Fix: {first.fix}",
    ]
    others = [each.name for each in found if each is not first]
    if others:
        said.append(f"After it, or beside it: {', '.join(others)}.")
    return [*said, looked]


def symptom_rows(incident: Incident) -> Iterator[tuple[str, ...]]:
    """Onset, name, what is seen, what it may follow from."""
    for each in incident.diagnosis.symptoms:
        follows = ", ".join(incident.diagnosis.follows[each.name])
        yield _onset(each, incident.fault), each.name, each.seen, follows


def change_rows(incident: Incident) -> Iterator[tuple[str, ...]]:
    """Quantity, normal, fault, how much, effect; the largest first."""
    told = [each for each in incident.changes.ranked if each.has_changed or each.is_one_sided]
    for each in told[:SHOWN]:
        yield (
            line(quantity_words(each), 100), _value(each.normal), _value(each.fault),
            _relative(each), "" if each.effect is None else number(each.effect, 2),
        )  # fmt: skip


def quantity_words(change_: Change) -> str:
    """`p99 of NAME{label="value"}`."""
    labels = ",".join(f"{key}={short(value)}" for key, value in change_.labels)
    return f"{change_.what} of {change_.name}" + (f"{{{labels}}}" if labels else "")


def to_json(incident: Incident) -> str:
    """Everything, for programs; what is not known is null."""
    first = incident.diagnosis.first_cause
    value: dict[str, Any] = {
        "schema": 1,
        "source": incident.source,
        "normal": incident.normal,
        "fault": incident.fault,
        "first_cause": first.name if first else None,
        "symptoms": [
            {**asdict(each), "may_follow_from": incident.diagnosis.follows[each.name]}
            for each in incident.diagnosis.symptoms
        ],
        "n_compared": incident.changes.n_compared,
        "n_left_out": incident.changes.n_left_out,
        "slice_s": incident.changes.slice_s,
        "changes": [{**asdict(e), "labels": dict(e.labels)} for e in incident.changes.ranked],
        "link": incident.link or None,
    }
    return json.dumps(_finite(value), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def to_markdown(incident: Incident) -> str:
    """A page for a ticket."""
    lines = [
        f"# Incident {utc_span(incident.fault)}",
        "",
        f"Beside {utc_span(incident.normal)}, by {_escaped(incident.source)}.",
        "",
        *(f"{_escaped(each)}\n" for each in sentences(incident)),
    ]
    if incident.link:
        lines += [f"[Board of this time]({incident.link})", ""]
    lines += _table(("onset", "symptom", "seen", "may follow from"), symptom_rows(incident))
    heads = ("quantity", "normal", "fault", "change", "effect")
    lines += ["", *_table(heads, change_rows(incident))]
    return "\n".join(lines) + "\n"


def figures_words(figures: tuple[Figure, ...]) -> str:
    """The evidence on one line."""
    parts = []
    for each in figures:
        normal = "" if each.normal is None else f" (normal {measured(each.normal, each.unit)})"
        parts.append(f"{each.what} {measured(each.value, each.unit)}{normal}")
    return "; ".join(parts)


def _table(heads: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> list[str]:
    body = [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    if not body:
        return []
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *body]


def _onset(symptom: Symptom, fault: Span) -> str:
    if symptom.window is None:
        return ""
    return f"+{symptom.window[0] - fault[0]:.0f} s"


def _value(value: float | None) -> str:
    return "absent" if value is None else _compact(value)


def _compact(value: float) -> str:
    return number(value) if 1e-4 <= abs(value) < 1e6 or value == 0 else f"{value:.3g}"


def _relative(each: Change) -> str:
    if not each.normal or each.fault is None:
        return ""
    ratio = each.fault / each.normal
    return f"{number(ratio)} times" if ratio >= 3 else change(ratio - 1)


def _escaped(text: str) -> str:
    """Text that Markdown takes for text."""
    flat = line(text, 400)
    for character in "\\`*_[]<>|#":
        flat = flat.replace(character, f"\\{character}")
    return flat


def _finite(value: Any) -> Any:
    """Infinities as null: JSON has none."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value
