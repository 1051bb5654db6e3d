"""One thing that was looked at on this machine: what `tailbreak doctor` is made of."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "lacking", "impossible"]


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of the doctor.

    Attributes:
        name: what was looked at.
        state: `impossible`: no measuring without it.
        found: what is there.
        costs: what its lack costs; empty where it is ok.
        do: what to do about it; empty where it is ok.
    """

    name: str
    state: State
    found: str
    costs: str = ""
    do: str = ""


def judge(name: str, *, ok: bool, found: str, costs: str, do: str) -> Check:
    """A check that is ok or lacking; what a lack costs is told only where there is one."""
    if ok:
        return Check(name=name, state="ok", found=found)
    return Check(name=name, state="lacking", found=found, costs=costs, do=do)
