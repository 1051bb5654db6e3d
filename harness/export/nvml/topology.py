"""How GPUs are connected, read once: NVLinks with their speed, PCIe paths, peer access."""

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import pynvml

from harness.base.errors import SetupError
from harness.export.nvml.device import Device, or_none
from harness.export.nvml.fields import FIRST_LINKS, Field, ask
from harness.export.nvml.reader import peer_of
from harness.records.topology import MAX_GPUS, Gpu, Pair, Topology

PATHS: Final = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "INT",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
"""The words of `nvidia-smi topo`: one board, one PCIe switch, several, a host bridge, a NUMA node,
several."""
LANE_BYTES_PER_S: Final = {1: 250e6, 2: 500e6, 3: 985e6, 4: 1969e6, 5: 3938e6, 6: 7563e6}
"""One direction of one lane, after line coding. Source: PCI Express base specification."""
MEGA: Final = 1e6


def read_topology(devices: Sequence[Device]) -> Topology:
    """The topology of these devices, without MIG instances and without GPUs that do not answer.

    Raises:
        SetupError: there is no GPU, or more than the file can hold.
        Lost: a GPU fell off the bus meanwhile.
    """
    whole = [each for each in devices if each.handle is not None and each.instance is None]
    if not 1 <= len(whole) <= MAX_GPUS:
        raise SetupError(f"a topology holds 1 to {MAX_GPUS} GPUs; NVML shows {len(whole)}")
    numbers = {device.bus_id: number for number, device in enumerate(whole)}
    links = [_links(device, numbers) for device in whole]
    rates = [rate for rate in map(_host_rate, whole) if rate is not None]
    return Topology(
        gpus=tuple(
            Gpu(gpu=number, uuid=each.uuid, model=each.model, pci_bus_id=each.bus_id)
            for number, each in enumerate(whole)
        ),
        pairs=tuple(
            _pair(one, other, whole, links) for one, other in combinations(range(len(whole)), 2)
        ),
        host_bytes_per_second=min(rates) if len(rates) == len(whole) else None,
    )


Links = dict[int | str, list[float | None]]
"""Speeds of the links that are up, by what is at the other end: a GPU's number or `switch`."""


def _links(device: Device, numbers: dict[str, int]) -> Links:
    found: Links = {}
    for link in device.links:
        if or_none(pynvml.nvmlDeviceGetNvLinkState, device.handle, link) == 1:
            peer = peer_of(device, link)
            found.setdefault(numbers.get(peer, peer), []).append(_speed(device, link))
    return found


def _speed(device: Device, link: int) -> float | None:
    """NVML's MB/s of one direction, under the first field that has it."""
    fields = [Field(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, link)]
    if link < FIRST_LINKS:
        fields.append(Field(pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_L0 + link))
    elif link < 2 * FIRST_LINKS:
        fields.append(Field(pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_L6 + link - FIRST_LINKS))
    fields.append(Field(pynvml.NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON))
    answers = [each for each in ask(device.handle, fields) if not isinstance(each, str)]
    return answers[0] * MEGA if answers and answers[0] > 0 else None


def _pair(one: int, other: int, devices: Sequence[Device], links: Sequence[Links]) -> Pair:
    """What lies between two GPUs: links of their own, or both ones' links to a switch."""
    handles = devices[one].handle, devices[other].handle
    ancestor = or_none(pynvml.nvmlDeviceGetTopologyCommonAncestor, *handles)
    p2p = or_none(pynvml.nvmlDeviceGetP2PStatus, *handles, pynvml.NVML_P2P_CAPS_INDEX_WRITE)
    speeds = min(_between(one, other, links), _between(other, one, links), key=len)
    known = [speed for speed in speeds if speed is not None]
    return Pair(
        gpus=(one, other),
        nvlinks=len(speeds),
        bytes_per_second=sum(known) if known and len(known) == len(speeds) else None,
        path=PATHS.get(ancestor),
        has_p2p=None if p2p is None else p2p == pynvml.NVML_P2P_STATUS_OK,
    )


def _between(one: int, other: int, links: Sequence[Links]) -> list[float | None]:
    switched = links[one].get("switch", []) if "switch" in links[other] else []
    return links[one].get(other, []) + switched


def _host_rate(device: Device) -> float | None:
    generation = or_none(pynvml.nvmlDeviceGetMaxPcieLinkGeneration, device.handle)
    width = or_none(pynvml.nvmlDeviceGetMaxPcieLinkWidth, device.handle)
    lane = LANE_BYTES_PER_S.get(generation)
    return None if lane is None or not width else lane * width
