"""What the processes of one run say to each other: small, named, over Locust's own connection.

A worker says `Here` for each user it has; the master answers with `Prepare` (which part of the plan
is whose), then `Begin` for each segment and `End`; the worker says `Ready`, `Done`, `Report` and
`Closed`. Whatever a worker says about a run carries the run's id, so that nothing late is taken for
news of the next run.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Here:
    """Another user of this process is there.

    Attributes:
        n_users: users so far.
        pid: the process.
        parent: the process that started it.
        boot: id of the running system: clocks of another are not comparable.
    """

    n_users: int
    pid: int
    parent: int
    boot: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepare:
    """Make ready to send part `number` of `of` of the run in `folder` to `url`."""

    run: str
    folder: str
    url: str
    number: int
    of: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Ready:
    """Prompts are made, users may be given work."""

    run: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Begin:
    """The segment at this position counts from this moment."""

    position: int
    begun_ns: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Done:
    """Every request of mine in this segment is recorded; whole unless it was stopped."""

    run: str
    position: int
    is_whole: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """Counts so far, and the TTFTs since the last report."""

    run: str
    n_records: int
    n_ok: int
    n_failed: int
    ttft_ns: list[int]


@dataclass(frozen=True, kw_only=True, slots=True)
class End:
    """Stop handing out, wait this long for what is in flight, cancel the rest, close."""

    grace_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Closed:
    """This process has written all it had; what it says of itself, and what broke."""

    run: str
    health: dict[str, Any] = field(default_factory=dict)
    failure: str | None = None
    exit_code: int = 0


Message = Here | Prepare | Ready | Begin | Done | Report | End | Closed
_KINDS: dict[str, type[Message]] = {
    kind.__name__: kind for kind in (Here, Prepare, Ready, Begin, Done, Report, End, Closed)
}


class Post(Protocol):
    """Carries messages: a worker's to the master, the master's to the worker named."""

    def send(self, message: Message, to: str | None = None) -> None:
        """Send it; a worker that is gone is no error."""
        ...

    def present(self) -> set[str]:
        """Workers that give signs of life; empty for a worker."""
        ...


def encode(message: Message) -> dict[str, Any]:
    """Plain values for the wire."""
    return {"kind": type(message).__name__, **asdict(message)}


def decode(values: dict[str, Any]) -> Message:
    """The message back.

    Raises:
        KeyError: no message of ours.
    """
    kind = _KINDS[values["kind"]]
    return kind(**{name: value for name, value in values.items() if name != "kind"})
