"""What the load processes of a run say about themselves, as one account: the worst of all."""

from collections.abc import Sequence
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from harness.records.about import check_shape
from harness.records.run import RunFolder

SUMMED: Final = frozenset(
    {"n_missing_stamps", "n_starved", "n_due_unsent", "n_users", "n_inexact_prompts"}
)
STAMPS_WORST_FIRST: Final = ("user", "tap", "kernel")


class _Account(BaseModel):
    """The figures that anyone looks at, each of the right kind."""

    model_config = ConfigDict(extra="allow", strict=True)

    cpu_share: float | None = None
    clock_steps: int = 0
    stamps: str | None = None
    connections_kept: bool | None = None
    n_missing_stamps: int = 0
    n_starved: int = 0
    n_due_unsent: int = 0
    n_users: int = 0
    max_starvation_s: float = 0.0
    lost_workers: list[str] = []
    workers: list[dict[str, Any]] = []


def read_account(run: RunFolder, session: int) -> dict[str, Any]:
    """What a session's load left in `client.json`; empty where it left none.

    Raises:
        RecordError: damaged, or a figure of another kind.
    """
    name = run.file_of_session("client.json", session)
    if not run.has(name):
        return {}
    account = run.read_object(name)
    check_shape(_Account, account, str(run.path / name))
    return account


def worst_account(accounts: Sequence[dict[str, Any]], *, at_once: bool = False) -> dict[str, Any]:
    """Counts are added, lists joined, other figures the largest, stamps the weakest.

    What was granted or counted holds if it holds for all. Processes that ran at once looked at the
    same clock: its steps are added over sessions, not over processes. Empty without any account.
    """
    names = dict.fromkeys(name for account in accounts for name in account)
    summed = SUMMED if at_once else SUMMED | {"clock_steps"}
    return {
        name: _worst(
            name, [account[name] for account in accounts if name in account], name in summed
        )
        for name in names
    }


def _worst(name: str, values: list[Any], is_summed: bool) -> Any:  # noqa: FBT001
    if name == "stamps":
        return next((source for source in STAMPS_WORST_FIRST if source in values), values[0])
    if all(isinstance(value, list) for value in values):
        return [item for value in values for item in value]
    if all(isinstance(value, bool) for value in values):
        return all(values)
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if not numbers:
        return next(filter(None, values), values[0])
    return sum(numbers) if is_summed else max(numbers)
