"""The run was made in several sessions: in rounds, or resumed after a crash or a stop."""

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.metrics.throughput import STRETCH
from harness.plan.rounds import ONE_ROUND


def check(evidence: Evidence) -> list[Doubt]:
    """How many sessions, what a session cut in two, and in what the later ones differ."""
    sessions = evidence.sessions
    if len(sessions) < 2:
        return _one_round(evidence)
    rest = [*_environments(evidence), *_targets(evidence)]
    n_rounds = 1 + len(evidence.rounds)
    if n_rounds > 1 and not evidence.run.get("is_bundled"):
        text = f"measured in {n_rounds} rounds on one start of the target: what moves between its"
        rest.insert(0, Doubt(text=f"{text} starts is in no interval"))
    if len(sessions) <= n_rounds:
        return rest
    stretches = evidence.planned[list(STRETCH)].drop_duplicates()
    n_cut = int((stretches["segment"].value_counts() > 1).sum())
    text = f"the run was resumed: it was made in {len(sessions)} sessions"
    if n_cut:
        cut = "1 segment was cut" if n_cut == 1 else f"{n_cut} segments were cut"
        text += f"; {cut}, each part measured after a warm-up of its own"
    return [Doubt(text=text), *rest]


def _one_round(evidence: Evidence) -> list[Doubt]:
    """Locust makes its report in the load's own process and sends the first round only."""
    is_first = evidence.scenario.has_rounds and evidence.run.get("command", "").startswith("locust")
    return [Doubt(text=ONE_ROUND)] if is_first else []


def _environments(evidence: Evidence) -> list[Doubt]:
    first = evidence.environment
    changed = {
        name
        for later in evidence.later_environments
        for name in set(first) | set(later)
        if first.get(name) != later.get(name)
    }
    if not changed:
        return []
    text = f"its sessions ran in different environments: {', '.join(sorted(changed))} changed"
    return [Doubt(text=f"{text}; cells mix them, compare with care")]


def _targets(evidence: Evidence) -> list[Doubt]:
    """Another address alone is no doubt where the bundled server was started again."""
    keys = ["models", "version", "kernels"]
    if not evidence.run.get("is_bundled"):
        keys.append("target")
    known = [[session.get(key) for session in evidence.sessions] for key in keys]
    changed = [key for key, values in zip(keys, known, strict=True) if _differs(values)]
    if not changed:
        return []
    text = f"its sessions met different targets: {', '.join(changed)} changed"
    return [Doubt(text=f"{text}; cells mix them, compare with care")]


def _differs(values: list[object]) -> bool:
    said = [value for value in values if value is not None]
    return any(value != said[0] for value in said)
