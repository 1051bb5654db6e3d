"""A finished request's account, as clients get it: `timings` and `Server-Timing`.

Seconds by phase add up to the wall time; what they leave over is told as `unattributed_s`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from harness.metrics.phases import SERVER_PHASES


@dataclass(frozen=True, kw_only=True, slots=True)
class Timings:
    """Where one request's time went.

    Attributes:
        phases: Seconds by phase, arrival to last event.
        ttft_phases: The same up to the first token with text.
        steps: Per reasoning step: tokens, context length after it, seconds.
        kv_tokens: Context length at the end.
        pool: Where it ended; it may have begun in `n_restarts` others.
    """

    phases: dict[str, float]
    ttft_phases: dict[str, float]
    wall_s: float
    ttft_s: float | None
    steps: list[dict[str, Any]] = field(default_factory=list)
    n_evictions: int = 0
    kv_tokens: int = 0
    path: str
    features: tuple[str, ...]
    pool: str
    n_restarts: int = 0
    n_output: int = 0

    def to_json(self) -> dict[str, Any]:
        """The object clients read."""
        return {
            "phases": self.phases,
            "ttft_phases": self.ttft_phases,
            "wall_s": self.wall_s,
            "ttft_s": self.ttft_s,
            "steps": self.steps,
            "n_evictions": self.n_evictions,
            "kv_tokens": self.kv_tokens,
            "path": self.path,
            "features": list(self.features),
            "pool": self.pool,
            "n_restarts": self.n_restarts,
            "unattributed_s": round(self.wall_s - sum(self.phases.values()), 9) + 0.0,
        }

    @property
    def server_timing(self) -> str:
        """The `Server-Timing` header: milliseconds, phases that took any time."""
        shown = [(phase, value) for phase, value in self.phases.items() if value > 0]
        return ", ".join(f"{name};dur={value * 1e3:.3f}" for name, value in shown)


def in_seconds(*accounts_ns: dict[str, int]) -> dict[str, float]:
    """Add accounts in nanoseconds up to seconds, every phase of the catalogue present."""
    return {
        phase: sum(account.get(phase, 0) for account in accounts_ns) / 1e9
        for phase in SERVER_PHASES
    }
