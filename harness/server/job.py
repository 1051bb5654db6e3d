"""A sequence that is with an engine: what was asked, what has come, and how to ask again.

An engine process may die under its jobs. A job then starts anew with another engine: the same
request draws the same tokens, so those that have been handed on are compared and not handed on
twice. Who takes it is the business of `pools`; the frames are `engine_link`'s.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.server.pool_costs import Left, Work

if TYPE_CHECKING:
    import asyncio

    from harness.server.frames import Frame
    from harness.server.pools import Placement


class TokenItem(NamedTuple):
    """A token; its account of phases comes with a sequence's first few.

    Attributes:
        logprobs: Log-probability of this token, and (token id, log-probability) of the likeliest
            ones, falling; None where the request did not ask.
    """

    until_ns: int
    token_id: int
    kind: str
    account: dict[str, int] | None
    logprobs: tuple[float, list[tuple[int, float]]] | None = None


class EndItem(NamedTuple):
    """The end of a sequence; `reason` may be `engine_died` or `replay_differs`.

    Attributes:
        n_cached: Prompt tokens whose keys and values came from the prefix cache.
    """

    until_ns: int
    reason: str
    n_evictions: int
    kv_tokens: int
    steps: list[dict[str, Any]]
    account: dict[str, int]
    n_cached: int = 0


@dataclass(eq=False, kw_only=True)
class Job:
    """One sequence; `has_items` wakes whoever waits for it.

    Attributes:
        path: Baseline or accelerated.
        command: What the engine is asked, but for the id, which each engine numbers by itself.
        tokens: Those handed on so far.
        n_replayed: Of these, how many the present engine has drawn as well.
        last_ns: When its latest new token was there; 0 before the first.
        begun: What the engine had done when this came to it.
    """

    placement: Placement
    path: str
    command: Frame
    n_output: int
    has_items: asyncio.Event
    id: int = 0
    items: deque[TokenItem | EndItem] = field(default_factory=deque)
    tokens: list[int] = field(default_factory=list)
    n_replayed: int = 0
    last_ns: int = 0
    is_stopped: bool = False
    is_restarted: bool = False
    has_diverged: bool = False
    begun: Work = field(default_factory=Work)

    def push(self, item: TokenItem | EndItem) -> None:
        """Add an event and wake the request."""
        self.items.append(item)
        self.has_items.set()

    def take(self) -> list[TokenItem | EndItem]:
        """Take all events there are."""
        taken = list(self.items)
        self.items.clear()
        return taken

    def is_new(self, token_id: int) -> bool:
        """Take note of a token; False for one that the client has, right or not."""
        if self.n_replayed == len(self.tokens):
            self.tokens.append(token_id)
            self.n_replayed += 1
            return True
        self.has_diverged = token_id != self.tokens[self.n_replayed]
        self.n_replayed += 1
        return False

    def ends_too_early(self, reason: str) -> bool:
        """Whether a second run is shorter than what its client has."""
        return reason in {"length", "stop"} and self.n_replayed < len(self.tokens)

    def restart(self, now_ns: int) -> None:
        """Begin anew: the time up to now was lost, and is told as `stall`."""
        self.command["account"] = {"stall": now_ns - self.command["sent_ns"]}
        self.command["sent_ns"] = now_ns
        self.n_replayed = 0
        self.is_restarted = True

    def stop(self) -> None:
        """Ask the engine to end this; its end event still comes."""
        self.is_stopped = True
        self.placement.pool.link.cancel(self)

    def abandon(self) -> None:
        """End this; nobody waits for it any more."""
        self.placement.pool.link.abandon(self)

    @property
    def n_prompt_left(self) -> int:
        """Prompt tokens to be read before the present engine's first token."""
        return 0 if self.n_replayed else len(self.command["tokens"])

    @property
    def left(self) -> Left:
        """What the engine still has before it."""
        return Left(self.n_prompt_left, self.n_output - self.n_replayed)
