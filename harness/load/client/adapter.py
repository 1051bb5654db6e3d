"""What an API adapter is: how to ask, and how to read the answer.

An adapter is one small class in one file; it knows the target's dialect and nothing about sockets,
plans or clocks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.load.client.exchange import Exchange, HttpRequest
from harness.records.request import RequestRecord
from harness.scenario.acceleration import Asked


def no_pause() -> None:
    """The pause of a caller that has nothing else to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ask:
    """What is asked of the target in one request.

    Attributes:
        model: model name.
        prompt: user text.
        turns: what followed it in a chain: answer, continuation, answer, continuation, ...
        max_tokens: answer tokens, reasoning steps excluded.
        sampling: sampling fields, each sent explicitly.
        seed: sampling seed.
        ignore_eos: keep generating up to max_tokens.
        cot_depth: reasoning steps of the bundled server, 0 for none.
        cot_step_tokens: tokens per step.
        accelerated: value of `X-MC-Accel`; None sends no such header.
        traceparent: value of the header of this name; None sends none.
        api_key: bearer token; never stored.
    """

    model: str
    prompt: str
    max_tokens: int
    turns: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    ignore_eos: bool = False
    cot_depth: int = 0
    cot_step_tokens: int = 0
    accelerated: Asked | None = None
    traceparent: str | None = None
    api_key: str | None = field(default=None, repr=False)

    @property
    def max_output_tokens(self) -> int:
        """Answer and reasoning tokens that may come."""
        return self.max_tokens + self.cot_depth * self.cot_step_tokens


class Adapter(Protocol):
    """One API dialect."""

    name: str
    path: str
    is_chat: bool

    def request(self, ask: Ask) -> HttpRequest:
        """The HTTP request for this ask."""
        ...

    def decode(
        self,
        exchange: Exchange,
        ask: Ask,
        *,
        keep_text: bool = False,
        pause: Callable[[], None] = no_pause,
    ) -> RequestRecord:
        """The record of this exchange; `intended_ns` is its start until the caller knows better.

        `pause` is called between events, so that a long answer can be decoded in slices.
        """
        ...

    def is_finished(self, body: Sequence[bytes]) -> bool:
        """Whether the answer has ended, asked when a stream falls silent."""
        ...
