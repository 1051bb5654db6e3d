"""How the GPUs of a machine are connected: the file `topology.json`, beside a run and by hand.

Only the file is here; NVML is read in `harness.export.nvml.topology`. Bandwidth is that of one
direction; a pair that is not listed is connected through the host alone.
"""

import json
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.base.errors import Problem, ScenarioError, SetupError

FILE_NAME: Final = "topology.json"
MAX_GPUS: Final = 16
MAX_BYTES: Final = 1_000_000
Bandwidth = Annotated[float, Field(gt=0, le=1e14, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Gpu(_Strict):
    """A GPU by NVML's number.

    Attributes:
        gpu: its number, from 0 in the order of the list.
    """

    gpu: int = Field(ge=0)
    uuid: str = Field(default="", max_length=100)
    model: str = Field(default="", max_length=100)
    pci_bus_id: str = Field(default="", max_length=40)


class Pair(_Strict):
    """Two GPUs.

    Attributes:
        gpus: their numbers, the smaller first.
        nvlinks: links that are up between them, or to a switch from each.
        bytes_per_second: over all these links, one direction; null where there are none or where
            NVML does not tell their speed.
        path: what the way over PCIe goes through, in the words of `nvidia-smi topo`.
        has_p2p: whether one may read the other's memory; null where NVML does not tell.
    """

    gpus: tuple[int, int]
    nvlinks: int = Field(default=0, ge=0, le=1000)
    bytes_per_second: Bandwidth | None = None
    path: str | None = Field(default=None, max_length=40)
    has_p2p: bool | None = None


class Topology(_Strict):
    """The GPUs of one machine.

    Attributes:
        host_bytes_per_second: what a GPU's PCIe link carries in one direction; null if not told.
    """

    schema_: Literal[1] = Field(default=1, alias="schema")
    gpus: tuple[Gpu, ...] = Field(min_length=1, max_length=MAX_GPUS)
    pairs: tuple[Pair, ...] = Field(default=(), max_length=MAX_GPUS * MAX_GPUS)
    host_bytes_per_second: Bandwidth | None = None

    @model_validator(mode="after")
    def _numbers_are_known(self) -> Self:
        """GPUs are numbered in order, and a pair is two of them, told once."""
        if [each.gpu for each in self.gpus] != list(range(len(self.gpus))):
            raise ValueError("gpus must be numbered 0, 1, 2 and so on, in this order")
        told = [each.gpus for each in self.pairs]
        for one, other in told:
            if not 0 <= one < other < len(self.gpus):
                raise ValueError(
                    f"pair [{one}, {other}]: allowed are two numbers of gpus, the smaller first"
                )
        if len(set(told)) != len(told):
            raise ValueError("a pair is listed twice")
        return self


def topology_json(topology: Topology) -> str:
    """The file's text."""
    return json.dumps(topology.model_dump(by_alias=True), indent=1) + "\n"


def read_topology(path: Path) -> Topology:
    """The topology in a file.

    Raises:
        SetupError: the file cannot be read, or is larger than a topology can be.
        ScenarioError: it is no topology; every problem at once.
    """
    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SetupError(f"--topology {path}: cannot be read: {error.strerror}") from error
    if len(text) > MAX_BYTES:
        raise SetupError(f"--topology {path}: more than {MAX_BYTES:,} bytes: not a topology")
    try:
        return Topology.model_validate_json(text)
    except ValidationError as error:
        problems = [
            Problem(
                where=".".join(str(part) for part in each["loc"]) or "(the file)",
                got=str(each["input"])[:60],
                allowed=each["msg"],
                hint="a file that `tailbreak topology --json FILE` wrote",
            )
            for each in error.errors()[:10]
        ]
        raise ScenarioError(str(path), problems) from error
