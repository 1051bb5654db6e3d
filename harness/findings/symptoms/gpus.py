"""What rules about GPUs share: the GPUs of a window, and one of them beside its peers."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import numpy as np

from harness.findings.text import short
from harness.metrics.catalogue.gpu import GPU_UP, GPU_UTILISATION
from harness.metrics.window import Window

AT_WORK: Final = 0.2
"""Utilisation."""


class Odd(NamedTuple):
    """Something that differs from the median of its peers.

    Attributes:
        name: which one.
        value: its own.
        median: of the others.
    """

    name: str
    value: float
    median: float

    @property
    def ratio(self) -> float:
        """Its value in the others' median; infinite where they have none."""
        return self.value / self.median if self.median else np.inf


def gpu_names(window: Window | None, name: str) -> dict[str, str]:
    """How to call each GPU that has a metric, by UUID: by its number, where that is one GPU's."""
    if window is None:
        return {}
    numbers = {
        labels["uuid"]: short(labels["gpu"])
        for labels in window.series(name)
        if {"gpu", "uuid"} <= labels.keys()
    }
    count = Counter(numbers.values())
    return {
        uuid: f"GPU {number}" if count[number] == 1 else f"GPU {number} ({short(uuid, 12)})"
        for uuid, number in sorted(numbers.items(), key=lambda pair: (pair[1], pair[0]))
    }


def at_work(window: Window | None, name: str) -> dict[str, str]:
    """The same without GPUs that are lost, or all but idle: they are no part of the job."""
    if window is None:
        return {}
    return {
        uuid: called
        for uuid, called in gpu_names(window, name).items()
        if (window.mean(GPU_UTILISATION.name, uuid=uuid) or 0.0) >= AT_WORK
        if window.values(GPU_UP.name, uuid=uuid).all()
    }


def odd_one(values: Mapping[str, float], far: Callable[[Odd], float]) -> Odd | None:
    """The value that is farthest from the median of the others, by `far`; None below three."""
    if len(values) < 3:
        return None
    found = [
        Odd(name, value, float(np.median([other for key, other in values.items() if key != name])))
        for name, value in values.items()
    ]
    return max(found, key=far)
