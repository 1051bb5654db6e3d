"""What is exposed of GPUs, made of the newest snapshot: a scrape calls no driver.

A snapshot that is older than several intervals is not shown: a driver that hangs must not look like
a GPU whose values stand still.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Final

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from harness.export.family import Point, families
from harness.export.nvml.device import Device
from harness.export.nvml.events import Events
from harness.export.nvml.probes import DCGM
from harness.export.nvml.reader import Reading
from harness.export.nvml.sampler import Sampler, Snapshot
from harness.metrics.catalogue import gpu
from harness.metrics.catalogue.metric import Metric

STALE_INTERVALS: Final = 5
STALE_LEAST_S: Final = 5.0
Points = dict[Metric, list[Point]]


class GpuCollector(Collector):
    """The series of the devices that a sampler reads."""

    def __init__(self, sampler: Sampler, events: Events, hostname: str) -> None:
        self._sampler = sampler
        self._events = events
        self._hostname = hostname

    @property
    def version(self) -> tuple[int, str]:
        """What `collect` gives stays the same while this does."""
        snapshot = self._sampler.latest
        return snapshot.taken_ns, snapshot.reason or self._staleness(snapshot)

    def collect(self) -> Iterator[Family]:
        """Families of the newest snapshot."""
        snapshot = self._sampler.latest
        reason = snapshot.reason or self._staleness(snapshot)
        points: Points = {metric: [] for metric in (*gpu.GPU_METRICS, *gpu.DCGM_METRICS)}
        points[gpu.EXPORTER_UP].append(Point((reason,), int(not reason)))
        if not reason:
            self._add(points, snapshot)
        yield from families(points)

    def describe(self) -> Iterator[Family]:
        """Nothing: what there is depends on the GPUs."""
        return iter(())

    def _staleness(self, snapshot: Snapshot) -> str:
        limit_s = max(STALE_LEAST_S, STALE_INTERVALS * self._sampler.interval_s)
        return "stale" if time.monotonic_ns() - snapshot.taken_ns > limit_s * 1e9 else ""

    def _add(self, points: Points, snapshot: Snapshot) -> None:
        peers = {reading.device.bus_id: str(reading.device.gpu) for reading in snapshot.readings}
        for reading in snapshot.readings:
            _add_reading(points, reading, peers, self._hostname)
            xid = self._events.last_xid(reading.device.uuid)
            if xid is not None:
                metric = DCGM["DEV_XID_ERRORS"]
                labels = _dcgm_labels(reading.device, self._hostname)
                points[metric].append(Point(labels, xid))
        gpus = {each.device.uuid: str(each.device.gpu) for each in snapshot.readings}
        for (uuid, metric_name), n in snapshot.resets:
            points[gpu.GPU_COUNTER_RESETS].append(Point((gpus[uuid], uuid, metric_name), n))
        kinds, codes = self._events.counts()
        for (uuid, kind), n in kinds.items():
            points[gpu.GPU_EVENTS].append(Point((gpus[uuid], uuid, kind), n))
        for (uuid, code), n in codes.items():
            points[gpu.GPU_XID].append(Point((gpus[uuid], uuid, str(code)), n))


class MissingCollector(Collector):
    """Says why there are no GPU series at all."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    @property
    def version(self) -> str:
        """It never changes."""
        return self._reason

    def collect(self) -> Iterator[Family]:
        """`gpu_exporter_up 0` and the reason."""
        yield from families({gpu.EXPORTER_UP: [Point((self._reason,), 0)]})


def _add_reading(points: Points, reading: Reading, peers: Mapping[str, str], hostname: str) -> None:
    device = reading.device
    own, dcgm = (str(device.gpu), device.uuid), _dcgm_labels(device, hostname)
    points[gpu.GPU_UP].append(Point(own, int(reading.is_up)))
    for value in reading.values:
        if value.metric.name.startswith("DCGM_"):
            points[value.metric].append(Point(dcgm, value.value))
            continue
        labels = value.labels
        if value.metric is gpu.NVLINK_UP:
            labels = (labels[0], peers.get(labels[1], labels[1]))
        points[value.metric].append(Point((*own, *labels), value.value))
    if reading.is_up:
        for name, reason in reading.reasons.items():
            points[gpu.GPU_SUPPORTED].append(Point((*own, name, reason), int(not reason)))


def _dcgm_labels(device: Device, hostname: str) -> tuple[str, ...]:
    minor = "" if device.minor is None else f"nvidia{device.minor}"
    instance = "" if device.instance is None else str(device.instance)
    return (
        str(device.gpu), device.uuid, device.bus_id, minor, device.model, device.profile, instance,
        hostname,
    )  # fmt: skip
