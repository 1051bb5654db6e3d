"""An SLO file as Prometheus rules: bad shares over several windows, and burn-rate alerts on them.

Pure: text in, text out. A burn rate of 1 spends the whole error budget in exactly one window; an
alert asks for a rate over a long window (it matters) and over a twelfth of it (it still goes on).
No request in a window is no share, and no alert.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.base.errors import Problem, ScenarioError
from harness.metrics.catalogue import load, server
from harness.metrics.catalogue.metric import Metric
from harness.scenario.slo import Objective, Slo

HISTOGRAMS: Final[dict[tuple[str, str], Metric]] = {
    ("server", "ttft_s"): server.TTFT,
    ("server", "itl_s"): server.ITL,
    ("server", "e2e_s"): server.INFER_DURATION,
    ("load", "ttft_s"): load.LOAD_TTFT,
    ("load", "itl_s"): load.LOAD_ITL,
    ("load", "e2e_s"): load.LOAD_E2E,
}
BAD: Final = "service:mc_slo_bad:ratio_rate"
LEFT: Final = "service:mc_slo_budget_left:ratio"


@dataclass(frozen=True, kw_only=True, slots=True)
class Burn:
    """One condition of an alert.

    Attributes:
        rate: how many times faster than allowed the budget is spent.
        part: the long window is the objective's window over this; the short one a twelfth of it.
    """

    rate: float
    part: int


ALERTS: Final = {
    "page": ("SloBudgetBurnsFast", (Burn(rate=14.4, part=720), Burn(rate=6.0, part=120))),
    "ticket": ("SloBudgetBurnsSlowly", (Burn(rate=3.0, part=30), Burn(rate=1.0, part=10))),
}
"""By severity. Over 30 days: 2 % of the budget in 1 h, 5 % in 6 h, 10 % in 1 day and in 3 days.

Source: Beyer et al., The Site Reliability Workbook (2018), chapter 5, table 5-8.
"""


def edge_of(objective: Objective) -> float:
    """The bucket edge that an objective is counted by: its limit, or the edge below.

    Raises:
        ScenarioError: no edge is below the limit.
    """
    limit = objective.limit_s or 0.0
    buckets = HISTOGRAMS[objective.source, objective.metric].buckets
    below = [edge for edge in buckets if edge <= limit]
    if not below or limit > buckets[-1]:
        allowed = f"{buckets[0]} to {buckets[-1]}: the histogram has no edge beyond"
        problem = Problem(where=f"{objective.name}.limit_s", got=str(limit), allowed=allowed)
        raise ScenarioError("slo", [problem])
    return below[-1]


def told_edges(slo: Slo) -> list[str]:
    """What a reader must know: limits between two edges, and alerts that could never fire."""
    told = []
    for each in slo.objectives:
        if each.limit_s is not None and edge_of(each) != each.limit_s:
            told.append(
                f"{each.name}: {each.limit_s:g} s is no bucket edge; counted by {edge_of(each):g} "
                "s, the edge below, which is stricter"
            )
        dead = [burn.rate for _, burns in ALERTS.values() for burn in burns if _is_dead(each, burn)]
        if dead:
            rates = ", ".join(f"{rate:g}" for rate in dead)
            told.append(
                f"{each.name}: no alert at burn rate {rates}: with a target of {each.target:g} "
                "not even failing every request reaches it"
            )
    return told


def render_rules(slo: Slo) -> str:
    """The rule file, as YAML."""
    lines = [
        f"# Written by `tailbreak slo rules` for the service {json.dumps(slo.service)}; edit the",
        "# SLO file and write it again.",
        *(f"# {told}" for told in told_edges(slo)),
        "groups:",
    ]
    for objective in slo.objectives:
        lines += [f"  - name: {json.dumps(f'slo-{slo.service}-{objective.name}')}", "    rules:"]
        for rule in _rules(slo, objective):
            lines += _yaml(rule)
    return "\n".join(lines) + "\n"


def _yaml(rule: dict[str, Any]) -> Iterator[str]:
    """One rule as an item of a list; JSON strings are YAML strings."""
    lead = "      - "
    for key, value in rule.items():
        if isinstance(value, dict):
            yield f"{lead}{key}:"
            yield from (f"          {name}: {json.dumps(text)}" for name, text in value.items())
        else:
            yield f"{lead}{key}: {json.dumps(value)}"
        lead = "        "


def _rules(slo: Slo, objective: Objective) -> Iterator[dict[str, Any]]:
    labels = {**slo.labels, "service": slo.service, "objective": objective.name}
    burns = [b for _, each in ALERTS.values() for b in each if not _is_dead(objective, b)]
    spans = {span for burn in burns for span in _spans(objective, burn)}
    for span in sorted({*spans, round(objective.window_s)}):
        yield {
            "record": f"{BAD}{_duration(span)}",
            "expr": _bad_share(slo, objective, _duration(span)),
            "labels": labels,
        }
    whole = f"{BAD}{_duration(round(objective.window_s))}{_selector(labels)}"
    budget = f"{1 - objective.target:.6g}"
    yield {"record": LEFT, "expr": f"1 - {whole} / {budget}", "labels": labels}
    for severity, (name, each) in ALERTS.items():
        alive = [burn for burn in each if not _is_dead(objective, burn)]
        if alive:
            yield _alert(objective, labels, severity, name, alive)


def _alert(
    objective: Objective, labels: dict[str, str], severity: str, name: str, burns: list[Burn]
) -> dict[str, Any]:
    conditions = []
    for burn in burns:
        threshold = f"{burn.rate * (1 - objective.target):.6g}"
        both = [
            f"{BAD}{_duration(span)}{_selector(labels)} > {threshold}"
            for span in _spans(objective, burn)
        ]
        conditions.append(f"({' and '.join(both)})")
    limit = "answered" if objective.limit_s is None else f"within {objective.limit_s:g} s"
    return {
        "alert": name,
        "expr": " or ".join(conditions),
        "labels": {**labels, "severity": severity},
        "annotations": {
            "summary": f"{labels['service']}: the budget of {objective.name} burns",
            "description": (
                f"Promised: {objective.target:.6g} of the requests {limit} over "
                f"{objective.window}. Bad now: {{{{ $value | humanizePercentage }}}}. "
                "Compare with a normal hour: tailbreak incident --normal T0..T1 --fault T2..T3 "
                "--prometheus URL"
            ),
        },
    }


def _spans(objective: Objective, burn: Burn) -> tuple[int, int]:
    """Long and short window in seconds."""
    long = round(objective.window_s / burn.part)
    return long, round(long / 12)


def _is_dead(objective: Objective, burn: Burn) -> bool:
    """Whether no share of bad requests can reach this burn rate."""
    return burn.rate * (1 - objective.target) >= 1


def _bad_share(slo: Slo, objective: Objective, span: str) -> str:
    where = dict(slo.select)
    if objective.source == "load":
        where["service"] = slo.service
    if objective.metric == "availability":
        return _unanswered(objective, _selector(where), span)
    name = HISTOGRAMS[objective.source, objective.metric].name
    good = f"sum(rate({name}_bucket{_selector(where, edge_of(objective))}[{span}]))"
    return f"1 - {good} / sum(rate({name}_count{_selector(where)}[{span}]))"


def _unanswered(objective: Objective, where: str, span: str) -> str:
    if objective.source == "load":
        bad, total = load.LOAD_FAILURES.name, f"sum(rate({load.LOAD_REQUESTS.name}{where}[{span}]))"
        return f"sum(rate({bad}{where}[{span}])) / {total}"
    bad = f"sum(rate({server.REFUSED_5XX.name}{where}[{span}]))"
    # A server that has not answered one request well has no series of requests yet.
    return f"{bad} / ((sum(rate({server.REQUESTS.name}{where}[{span}])) + {bad}) or {bad})"


def _selector(labels: dict[str, str], le: float | None = None) -> str:
    """Label matchers; a whole edge is written 10 or 10.0, by the format that was scraped."""
    pairs = [f"{name}={json.dumps(value)}" for name, value in sorted(labels.items())]
    if le is not None:
        pairs.append(f'le=~"{le:g}|{le:g}[.]0"' if le == int(le) else f'le="{le:g}"')
    return "{" + ",".join(pairs) + "}" if pairs else ""


def _duration(seconds: int) -> str:
    """Prometheus's words for a time, in the largest unit that divides it."""
    unit, size = next(
        (u, n) for u, n in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)) if seconds % n == 0
    )
    return f"{seconds // size}{unit}"
