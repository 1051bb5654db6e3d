"""What `run.json` says of a run, checked: a damaged or edited file is told, never half believed."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.base.errors import RecordError
from harness.records.run import RunFolder

FILE: Final = "run.json"


class _Stored(BaseModel):
    """Values of the right kind; what a later version adds may stand beside them."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)


class _StoredSession(_Stored):
    number: Annotated[int, Field(ge=1)]
    started: str
    ended: str | None = None
    boot_id: str | None = None
    realtime_minus_monotonic_ns: int | None = None
    target: str | None = None
    models: list[str] | None = None
    version: str | None = None
    kernels: str | None = None


class _StoredWish(_Stored):
    cell: str
    n: Annotated[int, Field(ge=1)]
    why: Literal["precision", "refine", "power", "confirm"]


class _StoredRound(_Stored):
    first_repeat: Annotated[int, Field(ge=0)]
    n_repeats: Annotated[int, Field(ge=1)]
    wishes: list[_StoredWish]


class _StoredRun(_Stored):
    id: str
    target: str
    started: str
    status: Literal["running", "partial", "complete"]
    finished: str | None = None
    is_bundled: bool = False
    baseline: str | None = None
    command: str = ""
    sessions: Annotated[list[_StoredSession], Field(min_length=1)] | None = None
    rounds: list[_StoredRound] = []


def read_about(run: RunFolder) -> dict[str, Any]:
    """The object in `run.json`; a run of an older version gets its one session.

    Raises:
        RecordError: missing, damaged, or a value of another kind; names the key.
    """
    value = run.read_object(FILE)
    check_shape(_StoredRun, value, str(run.path / FILE))
    first = {"number": 1, "started": value["started"], "ended": value.get("finished")}
    return {**value, "sessions": value.get("sessions") or [first]}


def served_by(session: Mapping[str, Any]) -> dict[str, str]:
    """What the target of this session said it was, by the names that a report shows."""
    known = {"server version": session.get("version"), "server kernels": session.get("kernels")}
    return {name: value for name, value in known.items() if value is not None}


def check_shape(model: type[BaseModel], value: Any, file: str) -> None:
    """Require that a stored value is what the model describes.

    Raises:
        RecordError: with every key that is wrong.
    """
    try:
        model.model_validate(value)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, item['loc'])) or '(file)'}: {item['msg'][:1].lower()}"
            f"{item['msg'][1:]}"
            for item in error.errors(include_input=False, include_url=False)
        )
        raise RecordError(f"{file}: damaged, or edited: {wrong}") from error
