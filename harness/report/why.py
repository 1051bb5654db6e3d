"""Why, by telemetry: what each break's title is, and its symptoms' figures in words."""

from dataclasses import dataclass

from harness.findings.quantity import measured, number
from harness.report import words
from harness.report.schema import Report, SeenFigure, SeenSymptom, Why


@dataclass(frozen=True)
class WhyRow:
    """One symptom, with its figures on one line."""

    symptom: SeenSymptom
    figures: str


@dataclass(frozen=True)
class WhyPart:
    """What is seen behind one break, or in the whole run."""

    title: str
    rows: tuple[WhyRow, ...]


def build_why(report: Report) -> tuple[WhyPart, ...]:
    """Every part with a symptom; empty without telemetry, and where it shows nothing."""
    return tuple(
        WhyPart(
            title=_title(each),
            rows=tuple(
                WhyRow(symptom=symptom, figures="; ".join(map(_figure, symptom.evidence)))
                for symptom in each.symptoms
            ),
        )
        for each in report.why
    )


def why_lines(report: Report) -> list[str]:
    """One line a part for a terminal: the first symptom, which explains the component if any."""
    return [
        f"{_title(each)}: {each.symptoms[0].seen} {each.symptoms[0].fix}"
        for each in report.why
        if each.symptoms
    ]


def _title(each: Why) -> str:
    if each.axis is None or each.location is None:
        return "The whole run"
    behind = f", where {words.phase_name(each.component)} grows" if each.component else ""
    path = f"{words.path_label(each.at)}: " if "accelerated" in each.at else ""
    place = words.place(each.at)
    at = f" ({place})" if place else ""
    return f"{path}beyond {each.axis} {number(each.location)}{at}{behind}"


def _figure(each: SeenFigure) -> str:
    value = _value(each.value, each)
    return value if each.normal is None else f"{value} (before: {_value(each.normal, each, '')})"


def _value(value: float | None, each: SeenFigure, name: str | None = None) -> str:
    said = each.what if name is None else name
    if value is None:
        return f"{said} beyond measure".strip()
    return f"{said} {measured(value, each.unit)}".strip()
