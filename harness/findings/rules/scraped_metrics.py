"""What servers and exporters said of themselves is missing in part, or cannot be."""

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.findings.scraped import doubts_of, grows_idle, zero_under_load
from harness.metrics.window import Telemetry
from harness.records.telemetry import TARGET


def check(evidence: Evidence) -> list[Doubt]:
    """A doubt on the run for each; the requests' own stamps depend on none of it."""
    if evidence.telemetry is None:
        return []
    n_starts = len(evidence.sessions) if evidence.run.get("is_bundled") else 1
    texts = doubts_of(evidence.telemetry, n_starts)
    if TARGET in evidence.telemetry.sources:
        texts += _of_target(evidence, evidence.telemetry.of_source(TARGET))
    return [Doubt(text=text) for text in texts]


def _of_target(evidence: Evidence, target: Telemetry) -> list[str]:
    """What only the requests that were sent can tell of the target's own account."""
    spans = evidence.unix_spans(evidence.planned)
    idle = target.before(spans[0][0]) if spans else None
    found = [
        grows_idle(idle) if idle is not None else None,
        zero_under_load(target, len(evidence.analysed)),
    ]
    return [f"metrics of the target: {text}" for text in found if text is not None]
