"""The result of a probe, as it is shown, stored and read by programs (schema 1)."""

from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from harness.load.probe.figures import Figure, Stream
from harness.load.probe.kind import ServerKind
from harness.load.probe.parameters import Parameter

SCHEMA: Final = 1


@dataclass(frozen=True, kw_only=True)
class Api:
    """One API of the server.

    Attributes:
        name: as `target.api` calls it.
        works: a streamed answer came whole.
        detail: what came instead, empty where it works.
    """

    name: str
    works: bool
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class PromptLengths:
    """How well prompt lengths can be set.

    Attributes:
        state: `exact` by a counting route; `estimated`, calibrated by usage; `guessed`.
        route: the counting route, None without.
        overhead: tokens that the server adds to every prompt; None where not known.
    """

    state: Literal["exact", "estimated", "guessed"]
    route: str | None = None
    overhead: int | None = None


@dataclass(frozen=True, kw_only=True)
class Acceleration:
    """What `X-MC-Accel: true` does.

    Attributes:
        state: `honoured`: the answer says that the accelerated path ran.
        features: as the answer lists them.
        detail: what was seen, in words.
    """

    state: Literal["honoured", "ignored", "refused", "unclear"]
    features: tuple[str, ...] = ()
    detail: str = ""


@dataclass(frozen=True, kw_only=True)
class Requests:
    """The measured requests.

    Attributes:
        n: sent.
        n_ok: came whole.
        outcomes: count by outcome.
        errors: distinct error texts, at most five.
    """

    n: int
    n_ok: int
    outcomes: dict[str, int]
    errors: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Everything a probe found out.

    Attributes:
        target: the URL as given.
        model: the model that was asked.
        models: ids that the server lists.
        api: the API that was used, as `target.api` calls it.
        keeps_connections: None where the probe was too short to tell.
        stamps: `kernel` or `user`.
        stamps_reason: why there are no kernel stamps, empty otherwise.
        latency_s: by latency name.
        advice: what to set, and what to expect, in words.
    """

    target: str
    model: str
    models: tuple[str, ...]
    server: ServerKind
    api: str
    apis: tuple[Api, ...]
    prompt_lengths: PromptLengths
    stream: Stream
    keeps_connections: bool | None
    stamps: str
    stamps_reason: str
    latency_s: dict[str, Figure]
    parameters: tuple[Parameter, ...]
    acceleration: Acceleration
    requests: Requests
    advice: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Plain JSON values, the schema's number first."""
        return {"schema": SCHEMA, **asdict(self)}
