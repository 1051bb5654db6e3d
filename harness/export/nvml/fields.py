"""NVLink, PCIe and memory temperature: NVML's field values, all asked for in one call.

A quantity may be known under several fields (generations differ): the first call asks for all of
them, later ones for the first that answered. NVLink counters are KiB per link up to generation 4
and bytes from 5 on; error counters have a field with a scope, or one a link before Hopper.

Source: field ids and units of NVML's `NVML_FI_DEV_*`.
"""

import math
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import pynvml

from harness.export.nvml.device import Device
from harness.export.nvml.failure import FOR_GOOD, reason_of, require_there
from harness.export.nvml.probes import DCGM
from harness.export.nvml.value import Value
from harness.metrics.catalogue import gpu
from harness.metrics.catalogue.metric import Metric

KIB: Final = 1024
MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Member of the union by `valueType`: a wrong one turns large counters negative."""
BLANKS: Final = frozenset({2**32 - 1, 2**64 - 1})
"""What NVML fills in where a field has no value, although it says success."""
FIRST_LINKS: Final = 6
"""Links that the oldest per-link fields number; the rest has numbers of its own."""


class Field(NamedTuple):
    """A field of NVML: its id, its scope (a link) and what it is multiplied with."""

    id: int
    scope: int = 0
    scale: float = 1


class Quantity(NamedTuple):
    """A series, twice where dcgm-exporter has it too, and the fields that may hold it."""

    series: tuple[tuple[Metric, tuple[str, ...]], ...]
    fields: tuple[Field, ...]


class FieldReader:
    """Reads the fields of one device; remembers which ones it has."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._wanted = list(_quantities(device))
        self.reasons: dict[str, str] = {}

    def read(self) -> list[Value]:
        """What can be read now.

        Raises:
            Lost: the GPU is gone.
        """
        asked = [field for quantity in self._wanted for field in quantity.fields]
        if not asked:
            return []
        answers = iter(ask(self._device.handle, asked))
        values, kept = [], []
        for quantity in self._wanted:
            given = [(field, next(answers)) for field in quantity.fields]
            best, reason = _choose(given)
            self._note(quantity, reason)
            if best is not None:
                field, value = best
                values += [Value(metric, value, labels) for metric, labels in quantity.series]
                kept.append(quantity if len(given) == 1 else Quantity(quantity.series, (field,)))
            elif reason not in FOR_GOOD:
                kept.append(quantity)
        self._wanted = kept
        return values

    def _note(self, quantity: Quantity, reason: str) -> None:
        for metric, _ in quantity.series:
            if self.reasons.get(metric.name) != "":  # one link that can be read is enough
                self.reasons[metric.name] = reason


def _choose(given: list[tuple[Field, float | str]]) -> tuple[tuple[Field, float] | None, str]:
    """The first field with a number; else why there is none, rather a reason that may pass."""
    for field, answer in given:
        if not isinstance(answer, str):
            return (field, answer * field.scale), ""
    words = [answer for _, answer in given if isinstance(answer, str)]
    return None, next((word for word in words if word not in FOR_GOOD), words[0])


def ask(handle: Any, fields: list[Field]) -> Iterable[float | str]:
    """A number or a reason for each, in order."""
    try:
        answers = pynvml.nvmlDeviceGetFieldValues(
            handle, [(each.id, each.scope) for each in fields]
        )
    except pynvml.NVMLError as error:
        require_there(error.value)
        return [reason_of(error.value)] * len(fields)
    return [_number(answer) for answer in answers]


def _number(answer: Any) -> float | str:
    code, kind = answer.nvmlReturn, answer.valueType  # an attribute of pynvml's costs a call
    if code != pynvml.NVML_SUCCESS:
        require_there(code)
        return reason_of(code)
    if kind >= len(MEMBERS):
        return "unknown type"
    value: float = getattr(answer.value, MEMBERS[kind])
    return "no data" if value in BLANKS or math.isnan(value) else value


def _quantities(device: Device) -> Iterable[Quantity]:
    yield Quantity(
        ((gpu.GPU_TEMPERATURE, ("memory",)), (DCGM["DEV_MEMORY_TEMP"], ())),
        (Field(pynvml.NVML_FI_DEV_MEMORY_TEMP),),
    )
    yield Quantity(
        ((gpu.PCIE_REPLAYS, ()), (DCGM["DEV_PCIE_REPLAY_COUNTER"], ())),
        (Field(pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER),),
    )
    for direction, id_ in (
        ("tx", pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES),
        ("rx", pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES),
    ):
        yield Quantity(((gpu.PCIE_BYTES, (direction,)),), (Field(id_),))
    for link in device.links:
        yield from _of_link(link)


def _of_link(link: int) -> Iterable[Quantity]:
    for direction, kib, plain in (
        (
            "tx",
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX,
            pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES,
        ),
        (
            "rx",
            pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
            pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES,
        ),
    ):
        yield Quantity(
            ((gpu.NVLINK_BYTES, (str(link), direction)),),
            (Field(kib, link, KIB), Field(plain, link)),
        )
    for kind, scoped, first, rest in (
        (
            "replay",
            pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_REPLAY,
            pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L0,
            pynvml.NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_L6,
        ),
        (
            "recovery",
            pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_RECOVERY,
            pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L0,
            pynvml.NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_L6,
        ),
        (
            "crc",
            pynvml.NVML_FI_DEV_NVLINK_ERROR_DL_CRC,
            pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L0,
            pynvml.NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_L6,
        ),
    ):
        fields = [Field(scoped, link)]
        if link < 2 * FIRST_LINKS:
            fields.append(Field(first + link if link < FIRST_LINKS else rest + link - FIRST_LINKS))
        yield Quantity(((gpu.NVLINK_ERRORS, (str(link), kind)),), tuple(fields))
