"""Alerts that need no objective: something is gone, broken, or makes a measurement worthless.

Objectives of a service have alerts of their own (`tailbreak slo`). Rendered twice from here: as
Prometheus rules, and as Grafana's own rules for who has no right to change a Prometheus; use one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from dashboards.promql import Scope
from harness.metrics.catalogue import gpu, load, server
from harness.metrics.catalogue.metric import Metric

S: Final = Scope(())
GPU: Final = ("instance", "gpu")
GROUP: Final = "tailbreak"
HELD_DOWN: Final = "!" + "|".join(gpu.HARMLESS_THROTTLES)
"""Reasons to throttle that cost speed."""
UNUSUAL: Final = f"{HELD_DOWN}|{gpu.POWER_CAP}"
"""Those that a GPU at full load has no reason to show."""
_WINDOW: Final = "1m"
_BAD: Final = S.rate(server.REFUSED_5XX, ("instance",), window=_WINDOW)
_FINISHED: Final = S.rate(server.REQUESTS, ("instance",), window=_WINDOW)
"""Not there before the first request ends well."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert.

    Attributes:
        name: In the style of Prometheus's own.
        expr: Fires for each series it gives.
        hold: How long it must hold, in Prometheus's words.
        severity: `page` where work is lost, `warn` where a number is in doubt.
        summary: What is wrong, with the series' labels.
        action: What to do.
    """

    name: str
    expr: str
    hold: str
    severity: str
    summary: str
    action: str


def _appeared(metric: Metric, by: tuple[str, ...], window: str) -> str:
    """Counters that grew, those among them that were not there before: the first event counts."""
    now = f"sum by ({', '.join(by)}) ({S.select(metric)})"
    grown = f"sum by ({', '.join(by)}) (increase({S.select(metric)}[{window}]))"
    return f"{grown} > 0 or ({now} > 0 unless {now[:-1]} offset {window}))"


ALERTS: Final = (
    Alert(
        name="TailbreakTargetDown",
        expr='up{job=~"tailbreak-(server|gpu)"} == 0',
        hold="10s",
        severity="page",
        summary="{{ $labels.job }} at {{ $labels.instance }} does not answer",
        action="Look whether the process lives; its boards stand still until it does.",
    ),
    Alert(
        name="TailbreakGpuUnreadable",
        expr=f"{S.select(gpu.EXPORTER_UP)} == 0",
        hold="10s",
        severity="warn",
        summary="NVML at {{ $labels.instance }} cannot be read: {{ $labels.reason }}",
        action="Check the driver with nvidia-smi; GPU panels are empty meanwhile.",
    ),
    Alert(
        name="TailbreakGpuLost",
        expr=f"{S.select(gpu.GPU_UP)} == 0",
        hold="0s",
        severity="page",
        summary="GPU {{ $labels.gpu }} at {{ $labels.instance }} fell off the bus",
        action="Drain the host; a reset or a reboot brings the GPU back, or it is broken.",
    ),
    Alert(
        name="TailbreakGpuXid",
        expr=_appeared(gpu.GPU_XID, (*GPU, "xid"), "5m"),
        hold="0s",
        severity="warn",
        summary="XID {{ $labels.xid }} on GPU {{ $labels.gpu }} at {{ $labels.instance }}",
        action="Look the code up; treat runs of these minutes as suspect.",
    ),
    Alert(
        name="TailbreakGpuThrottled",
        expr=f"{S.max(gpu.GPU_THROTTLE, (*GPU, 'reason'), reason=UNUSUAL)} == 1",
        hold="30s",
        severity="warn",
        summary="GPU {{ $labels.gpu }} at {{ $labels.instance }} is held down "
        "({{ $labels.reason }})",
        action="Check cooling and power supply; do not compare latencies across this time.",
    ),
    Alert(
        name="TailbreakNvlinkDown",
        expr=f"{S.select(gpu.NVLINK_UP, peer='!')} == 0",
        hold="10s",
        severity="page",
        summary="NVLink {{ $labels.nvlink }} of GPU {{ $labels.gpu }} at {{ $labels.instance }} "
        "is down",
        action="Collectives take a detour: drain the host.",
    ),
    Alert(
        name="TailbreakLoadGeneratorLate",
        expr=(
            f"{S.quantile('0.99', load.DISPATCH_LAG, ('instance',), _WINDOW)} / "
            f"{S.quantile('0.99', load.LOAD_TTFT, ('instance',), _WINDOW)} > 0.05"
        ),
        hold="30s",
        severity="warn",
        summary="the load generator's own lag is {{ $value | humanizePercentage }} of TTFT P99",
        action="Free a core, or send from several processes; the run will be refused as evidence.",
    ),
    Alert(
        name="TailbreakStorePoolFull",
        expr=f"{S.select(server.STORE_IN_USE)} >= {S.select(server.STORE_LIMIT)}",
        hold="30s",
        severity="warn",
        summary="all journal connections of {{ $labels.instance }} are taken",
        action="Requests wait for the journal: look at its disk, or use async_store.",
    ),
    Alert(
        name="TailbreakGcPauses",
        expr=f"{S.rate(server.GC_PAUSE, ('instance', 'process'), '_sum', _WINDOW)} > 0.05",
        hold="30s",
        severity="warn",
        summary="{{ $labels.process }} at {{ $labels.instance }} collects garbage "
        "{{ $value | humanizePercentage }} of the time",
        action="Use gc_tuned, or find what allocates.",
    ),
    Alert(
        name="TailbreakServerErrors",
        expr=f"{_BAD} / (({_FINISHED} + {_BAD}) or {_BAD}) > 0.01",
        hold="30s",
        severity="page",
        summary="{{ $labels.instance }} answers {{ $value | humanizePercentage }} of requests "
        "with 5xx",
        action="Read its log; look at pools, KV memory and journal on the Server board.",
    ),
    Alert(
        name="TailbreakPoolDead",
        expr=f"{S.select(server.POOL_UP)} == 0",
        hold="0s",
        severity="page",
        summary="pool {{ $labels.pool }} at {{ $labels.instance }} is dead",
        action="The others carry its load; restart the server to have it back.",
    ),
)


def prometheus_rules() -> str:
    """The rule file for Prometheus; strings are JSON's, which YAML reads."""
    lines = [
        "# Generated by `tailbreak dashboards render` from dashboards/alerts.py.",
        "groups:",
        f"  - name: {GROUP}",
        "    rules:",
    ]
    for each in ALERTS:
        lines += [
            f"      - alert: {each.name}",
            "        expr: |-",
            f"          {each.expr}",
            f"        for: {each.hold}",
            "        labels:",
            f"          severity: {each.severity}",
            "        annotations:",
            f"          summary: {json.dumps(each.summary)}",
            f"          action: {json.dumps(each.action)}",
        ]
    return "\n".join([*lines, ""])


def grafana_rules(datasource_uid: str) -> dict[str, Any]:
    """The same for Grafana's alerting, as a provisioning file."""
    rules = [_grafana_rule(each, datasource_uid) for each in ALERTS]
    group = {
        "orgId": 1, "name": GROUP, "folder": GROUP, "interval": "10s", "rules": rules,
    }  # fmt: skip
    return {"apiVersion": 1, "groups": [group]}


def _grafana_rule(each: Alert, datasource_uid: str) -> dict[str, Any]:
    """Each series of the query counts, whatever its value: a 0 that fires becomes a 1."""
    asked = {"refId": "A", "expr": f"({each.expr}) * 0 + 1", "instant": True, "range": False}
    above = {
        "refId": "B", "type": "threshold", "expression": "A",
        "conditions": [{"evaluator": {"type": "gt", "params": [0]}}],
    }  # fmt: skip
    window = {"from": 600, "to": 0}
    return {
        "uid": each.name.lower(),
        "title": each.name,
        "condition": "B",
        "for": each.hold,
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": {"severity": each.severity},
        "annotations": {"summary": each.summary, "action": each.action},
        "data": [
            {"refId": "A", "relativeTimeRange": window, "datasourceUid": datasource_uid,
             "model": asked},
            {"refId": "B", "relativeTimeRange": window, "datasourceUid": "__expr__",
             "model": above},
        ],
    }  # fmt: skip
