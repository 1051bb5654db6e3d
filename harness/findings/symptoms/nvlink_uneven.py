"""NVLinks that should carry alike do not: one is down or slow, or one GPU's ring is.

Links of a GPU to the same neighbour share its traffic; GPUs of one job send as much as each other.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from harness.findings.quantity import number
from harness.findings.symptoms.gpus import Odd, at_work, gpu_names, odd_one
from harness.findings.symptoms.measure import given
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.findings.text import short
from harness.metrics.catalogue.gpu import NVLINK_BYTES, NVLINK_ERRORS, NVLINK_UP
from harness.metrics.window import Window

LIMIT: Final = 2.0
"""How many times more or less than the median of its peers."""
LEAST_BYTES_PER_S: Final = 1e6
"""Median below which nothing is sent."""
NORMAL: Final = 1.25
"""A normal window that is as uneven, to within this, is how the machine is used."""


def check(context: Context, *, limit: float = LIMIT) -> Symptom | None:
    """Fires where a link, or a GPU's links together, carry twice or half of what its peers do."""
    if context.fault is None:
        return None
    usual = {odd.name: _times(odd) for odd in _odds(context.normal)} if context.normal else {}
    found = [
        odd
        for odd in _odds(context.fault)
        if _times(odd) >= limit and _times(odd) > NORMAL * usual.get(odd.name, 0.0)
    ]
    if not found:
        return None
    odd = max(found, key=_times)
    down, errors = _down(context.fault), context.fault.increase(NVLINK_ERRORS.name)
    told = f" Down: {', '.join(down[:4])}." if down else ""
    return Symptom(
        name="nvlink_uneven",
        seen=(
            f"{odd.name} carries {number(odd.value / 1e9)} GB/s, its peers "
            f"{number(odd.median / 1e9)} GB/s.{told}"
        ),
        cause="A link is down or retries, or the work is split without regard to the links.",
        fix="nvidia-smi nvlink -s and -e; tailbreak topology, and tailbreak split for the batch.",
        strength=min(_times(odd), 100.0) / limit,
        evidence=given(
            Figure(
                what="times its peers' traffic", value=min(_times(odd), 100.0),
                normal=usual.get(odd.name),
            ),
            Figure(what=f"traffic of {odd.name}", value=odd.value, unit="bytes/s"),
            Figure(what="median of its peers", value=odd.median, unit="bytes/s"),
            Figure(what="links down", value=len(down)) if down else None,
            None if errors is None else Figure(what="link errors", value=errors),
        ),
    )  # fmt: skip


def _times(odd: Odd) -> float:
    """How many times more or less; 1 is alike, and so is what is all but idle."""
    if odd.median < LEAST_BYTES_PER_S:
        return 1.0
    return max(odd.ratio, 1 / odd.ratio if odd.ratio else float("inf"))


def _odds(window: Window) -> Iterator[Odd]:
    """The oddest link of each bundle, and the oddest GPU."""
    gpus: dict[str, float] = {}
    for uuid, name in at_work(window, NVLINK_BYTES.name).items():
        links = _rates(window, uuid)
        gpus[name] = sum(links.values())
        for bundle in _bundles(window, uuid, links):
            named = {f"{name} link {short(link)}": links[link] for link in bundle}
            odd = odd_one(named, _times)
            if odd is not None:
                yield odd
    odd = odd_one(gpus, _times)
    if odd is not None:
        yield odd


def _rates(window: Window, uuid: str) -> dict[str, float]:
    """Bytes a second of each link, both directions."""
    links = {
        labels["nvlink"]
        for labels in window.series(NVLINK_BYTES.name)
        if labels.get("uuid") == uuid and "nvlink" in labels
    }
    found = {link: window.rate(NVLINK_BYTES.name, uuid=uuid, nvlink=link) for link in links}
    return {link: rate for link, rate in found.items() if rate is not None}


def _bundles(window: Window, uuid: str, links: dict[str, float]) -> list[list[str]]:
    """Links by what is at their other end; nothing where that is not told."""
    peers: dict[str, list[str]] = defaultdict(list)
    for labels in window.series(NVLINK_UP.name):
        if labels.get("uuid") == uuid and labels.get("nvlink") in links and labels.get("peer"):
            peers[labels["peer"]].append(labels["nvlink"])
    return list(peers.values())


def _down(window: Window) -> list[str]:
    """Links that were down at some time."""
    names = gpu_names(window, NVLINK_UP.name)
    return sorted(
        f"{names[labels['uuid']]} link {short(labels['nvlink'])}"
        for labels in window.series(NVLINK_UP.name)
        if labels.get("uuid") in names and "nvlink" in labels
        if not window.values(NVLINK_UP.name, uuid=labels["uuid"], nvlink=labels["nvlink"]).all()
    )
