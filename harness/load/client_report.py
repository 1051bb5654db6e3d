"""What several load processes say of themselves, as one account: the worst of each."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_Combine = Callable[[Sequence[Any]], Any]

_COMBINED: Final[Mapping[str, _Combine]] = {
    **dict.fromkeys(
        (
            "cpu_share", "loop_lag_p99_s", "loop_lag_max_s", "gc_pause_max_s", "clock_steps",
            "max_starvation_s", "nice", "stamps", "stamps_reason",
        ),
        max,
    ),
    **dict.fromkeys(
        ("n_missing_stamps", "n_starved", "n_due_unsent", "n_users", "n_inexact_prompts"), sum
    ),
    **dict.fromkeys(("short_slices", "exact_timer", "prompts_counted", "connections_kept"), all),
}  # fmt: skip
"""`stamps`: "user" sorts after "kernel", so the weakest source is the greatest. `clock_steps`: all
processes look at the same clock, so the most that one saw is what happened."""


def merge(healths: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One `client.json` for all: figures that add up are added, of the others the worst.

    Each process's own account stands under `workers`, in order of their numbers. Processes that had
    nothing to send have no figures and take no part.
    """
    merged: dict[str, Any] = {}
    for name, combine in _COMBINED.items():
        known = [health[name] for health in healths if health.get(name) is not None]
        merged[name] = combine(known) if known else None
    merged["workers"] = [dict(health) for health in healths]
    return merged
