"""Why, by telemetry: the section's words, escaped; no section without a symptom."""

from harness.findings.finding import SeenFigure, SeenSymptom, Why
from harness.report.html import render_html
from harness.report.summary import render_summary
from harness.report.why import build_why, why_lines
from tests.unit.report.make_report import make_report


def symptom(**changes: object) -> SeenSymptom:
    parts = {
        "name": "kv_pressure", "seen": "KV memory is short.", "cause": "Too much.",
        "fix": "Use paged_kv.", "strength": 5.0, "explains_component": True,
        "evidence": [
            SeenFigure(
                what="share of a request's time waiting", value=0.5, unit="share", normal=0.01
            ),
            SeenFigure(what="P99 of a pause", value=0.187, unit="s", normal=None),
        ],
    }  # fmt: skip
    return SeenSymptom.model_validate({**parts, **changes})


def why(*symptoms: SeenSymptom) -> Why:
    return Why(
        axis="prompt_tokens", at={"accelerated": False}, location=250.0, component="kv_wait",
        symptoms=list(symptoms),
    )  # fmt: skip


def test_figures_are_told_with_their_units() -> None:
    """Shares in per cent, times in milliseconds, with what they were before the break."""
    report = make_report().model_copy(update={"why": [why(symptom())]})
    (part,) = build_why(report)
    assert part.title.startswith("baseline: beyond prompt_tokens 250")
    assert part.rows[0].figures == (
        "share of a request's time waiting 50 % (before: 1.0 %); P99 of a pause 187 ms"
    )
    (line,) = why_lines(report)
    assert line.endswith("KV memory is short. Use paged_kv.")


def test_text_of_a_symptom_is_escaped() -> None:
    """A pool's name comes from outside and stays text."""
    hostile = symptom(seen="Pool <script>alert(1)</script> was down.")
    page = render_html(make_report().model_copy(update={"why": [why(hostile)]}))
    assert 'id="why"' in page
    assert "Pool &lt;script&gt;alert(1)" in page
    assert "Pool <script>" not in page


def test_no_symptom_is_no_section() -> None:
    """Without telemetry the page says nothing about it."""
    page = render_html(make_report())
    assert 'id="why"' not in page
    assert why_lines(make_report()) == []


def test_the_summary_names_the_first_cause_and_its_fix() -> None:
    """One paragraph, however many breaks have one; Markdown in it stays text."""
    parts = [why(symptom(fix="Use `paged_kv`.")), why(symptom())]
    text = render_summary(make_report().model_copy(update={"why": parts}))
    assert "**Why.** baseline: beyond prompt_tokens 250" in text
    assert "KV memory is short. Use \\`paged_kv\\`. And 1 more in report.html." in text
    assert "**Why.**" not in render_summary(make_report())
