"""A GPU failed or was held down while the run went on: latencies of that time are its, too."""

from collections.abc import Iterator
from datetime import UTC, datetime

import numpy as np

from harness.findings.evidence import Evidence
from harness.findings.rules.rule import Doubt
from harness.findings.symptoms import Context, gpu_throttled
from harness.findings.text import short
from harness.metrics.catalogue.gpu import GPU_UP, GPU_XID
from harness.metrics.window import Telemetry


def check(evidence: Evidence) -> list[Doubt]:
    """A doubt on the run for each XID code, lost GPU and the worst throttling."""
    if evidence.telemetry is None:
        return []
    texts = [*_xids(evidence.telemetry), *_lost(evidence.telemetry)]
    throttled = gpu_throttled.check(Context(fault=evidence.telemetry.window()))
    if throttled is not None:
        texts.append(throttled.seen.rstrip("."))
    return [Doubt(text=text) for text in texts]


def _xids(telemetry: Telemetry) -> Iterator[str]:
    for each in telemetry.series(GPU_XID.name):
        grown = np.flatnonzero(np.diff(each.growth()) > 0)
        if grown.size:
            code, when = each.labels.get("xid", "?"), _time(float(each.times[grown[0] + 1]))
            yield f"{_name(each.labels)} reported XID {short(code)} at {when}"


def _lost(telemetry: Telemetry) -> Iterator[str]:
    for each in telemetry.series(GPU_UP.name):
        down = np.flatnonzero(each.alive & (each.held == 0))
        if down.size:
            yield f"{_name(each.labels)} did not answer at {_time(float(each.times[down[0]]))}"


def _name(labels: dict[str, str]) -> str:
    uuid = labels.get("uuid", "")
    return f"GPU {short(labels.get('gpu', '?'))}" + (f" ({short(uuid, 12)})" if uuid else "")


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%H:%M:%S UTC")
