"""What the load processes of a run say about themselves, as one account: the worst of all."""

from collections.abc import Sequence
from typing import Any, Final

SUMMED: Final = frozenset({"clock_steps", "n_missing_stamps", "n_starved", "n_users"})
STAMPS_WORST_FIRST: Final = ("user", "tap", "kernel")


def worst_account(accounts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Counts are added, other figures are the largest, stamps the weakest; empty without any."""
    names = dict.fromkeys(name for account in accounts for name in account)
    return {
        name: _worst(name, [account[name] for account in accounts if name in account])
        for name in names
    }


def _worst(name: str, values: list[Any]) -> Any:
    if name == "stamps":
        return next((source for source in STAMPS_WORST_FIRST if source in values), values[0])
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if not numbers:
        return values[0]
    return sum(numbers) if name in SUMMED else max(numbers)
