"""Implicit synchronisation: who made the ranks of a run wait, who waited, and for how long.

A collective that needs every rank shows in each early rank's profile as a long transfer. The wait
belongs to the ranks that were early, its cause to the late one. Clocks: `harness.stats.barrier`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.base.errors import RecordError
from harness.records.profile import Profile
from harness.stats.barrier import Barrier, lateness_p, meet

MEETS: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Collectives that no rank leaves before all have come. A broadcast's source does not wait."""


@dataclass(frozen=True, kw_only=True)
class RankRow:
    """One rank, over all collectives in which every rank took part.

    Attributes:
        n_last: collectives to which it came last, by more than the clocks' error.
        p: chance of being last so often by luck, over all ranks together.
        late_s: median of how much later than the second last, where it was last; None where never.
        late_most_s: the most of that.
        wait_s: that it waited for others.
        hidden_s: of it, spent while other work of the rank ran: that part cost nothing.
        wait_share: of the time from its first collective to its last.
        caused_s: waiting of all the others, where it was last.
        saves_s: how much sooner all would have been, had it come with the second last.
        clock_offset_s: its clock less that of the first rank, median.
    """

    rank: int
    n_last: int
    p: float
    late_s: float | None
    late_most_s: float | None
    wait_s: float
    hidden_s: float
    wait_share: float
    caused_s: float
    saves_s: float
    clock_offset_s: float


@dataclass(frozen=True, kw_only=True)
class RankTable:
    """All ranks.

    Attributes:
        n_collectives: in which all took part and which synchronise.
        n_told: of them, where somebody was last by more than the clocks' error.
        clock_error_s: how well the clocks are aligned (`harness.stats.barrier`).
        span_s: from the first to the end of the last, by the first rank's clock.
        meetings: a row a rank and collective: rank, collective, ready_s, start_s, end_s, wait_s,
            on the first rank's clock; start_s is when the last rank was there.
        caveats: what was left out.
    """

    rows: tuple[RankRow, ...]
    n_collectives: int
    n_told: int
    clock_error_s: float
    span_s: float
    meetings: pd.DataFrame
    caveats: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The table without the single meetings."""
        return {
            "n_collectives": self.n_collectives,
            "n_told": self.n_told,
            "clock_error_s": self.clock_error_s,
            "span_s": self.span_s,
            "rows": [asdict(row) for row in self.rows],
            "caveats": list(self.caveats),
        }


def rank_table(profiles: Sequence[Profile]) -> RankTable:
    """Who was late, from one profile a rank.

    Raises:
        RecordError: ranks that are not told or told twice, or no collective that all share.
    """
    ordered = _by_rank(profiles)
    meetings, caveats = _meetings(ordered)
    present = set(meetings["start_s"].columns)
    absent = [str(each.rank) for each in ordered if each.rank not in present]
    if absent:
        caveats.append(f"ranks without a collective that these share: {', '.join(absent)}")
    ordered = [each for each in ordered if each.rank in present]
    names = list(meetings.index.get_level_values("name"))
    barrier = meet(meetings["start_s"].to_numpy(), meetings["end_s"].to_numpy())
    spans = meetings["end_s"].max().to_numpy() - meetings["start_s"].min().to_numpy()
    rows = _rows(ordered, barrier, spans, meetings["start_s"].to_numpy())
    ends = meetings["end_s"].to_numpy() - barrier.offset_s
    return RankTable(
        rows=rows,
        n_collectives=len(meetings),
        n_told=int((barrier.last >= 0).sum()),
        clock_error_s=barrier.error_s,
        span_s=float(ends.max() - barrier.ready_s.min()),
        meetings=_long(ordered, names, barrier, ends),
        caveats=tuple(caveats),
    )


def _by_rank(profiles: Sequence[Profile]) -> list[Profile]:
    seen: dict[int, Profile] = {}
    for each in profiles:
        if each.rank is None:
            raise RecordError(
                f"{each.file}: does not say which rank it is; allowed are profiles that were begun "
                "after torch.distributed.init_process_group, one a rank"
            )
        if each.rank in seen:
            raise RecordError(
                f"{each.file}: rank {each.rank} again, it is {seen[each.rank].file} too; "
                "allowed is one profile a rank"
            )
        seen[each.rank] = each
    return [seen[rank] for rank in sorted(seen)]


def _meetings(profiles: list[Profile]) -> tuple[pd.DataFrame, list[str]]:
    """One row a collective that all share, in order of time; columns (start_s | end_s, rank)."""
    frames = [_collectives(each, profiles[0].base_ns) for each in profiles]
    every = pd.concat(frames)
    meeting = every[every["name"].isin(MEETS)]
    caveats = []
    if len(every) > len(meeting):
        caveats.append(
            f"{len(every) - len(meeting):,} of {len(every):,} transfers do not make every rank "
            "wait (a broadcast's source goes on) and are left out"
        )
    _require_equal(meeting)
    wide = meeting.pivot_table(
        index=["group", "name", "number"], columns="rank", values=["start_s", "end_s"]
    )
    shared = _most_shared(wide) if len(wide) else wide
    if shared.empty or len(shared["start_s"].columns) < 2:
        files = ", ".join(each.file for each in profiles)
        raise RecordError(
            f"{files}: no collective that at least two profiles share; allowed {', '.join(MEETS)} "
            "of gloo or NCCL, one profile a rank, of the same steps"
        )
    if len(wide) > len(shared):
        ranks = ", ".join(map(str, shared["start_s"].columns))
        caveats.append(
            f"{len(wide) - len(shared):,} of {len(wide):,} collectives are not in the profiles of "
            f"ranks {ranks} alone and are left out; give another group's profiles by themselves"
        )
    n_ranks = max((each.n_ranks or 0) for each in profiles)
    if n_ranks > len(profiles):
        caveats.append(
            f"{len(profiles)} of {n_ranks} ranks given: the late one may be another; whoever was "
            "last here is only the last of these"
        )
    return shared.iloc[np.argsort(shared["start_s"].to_numpy()[:, 0], kind="stable")], caveats


def _most_shared(wide: pd.DataFrame) -> pd.DataFrame:
    """The collectives of that set of ranks, at least two, which has most of them."""
    presence = wide["start_s"].notna().to_numpy()
    together = presence[presence.sum(axis=1) >= 2]
    if not len(together):
        return wide.iloc[:0]
    sets, counts = np.unique(together, axis=0, return_counts=True)
    ranks = sets[counts.argmax()]
    shared: pd.DataFrame = wide[(presence == ranks).all(axis=1)].dropna(axis="columns")
    return shared


def _collectives(profile: Profile, base_ns: int) -> pd.DataFrame:
    """A row a collective, numbered within its group by its sequence or by its order."""
    found = profile.of("collective").copy()
    shift_s = (profile.base_ns - base_ns) / 1e9
    found["start_s"] += shift_s
    found["end_s"] = found["start_s"] + found["duration_s"]
    in_order = found.groupby(["group", "name"]).cumcount().astype("Int64")
    found["is_told"] = found["sequence"].notna()
    found["number"] = found["sequence"].where(found["is_told"], in_order)
    return found[~found.duplicated(["group", "name", "number"])]


def _require_equal(meeting: pd.DataFrame) -> None:
    """Without numbers, the n-th of one rank is the n-th of another only if all have as many."""
    for (_, name), same in meeting.groupby(["group", "name"]):
        counts = same["rank"].value_counts().sort_index()
        if len(set(counts)) > 1 and not same["is_told"].all():
            told = ", ".join(f"rank {rank}: {n}" for rank, n in counts.items())
            raise RecordError(
                f"{name}: the profiles hold different numbers of it ({told}) and it carries no "
                "sequence number; allowed are profiles of the same steps"
            )


def _rows(
    profiles: list[Profile],
    barrier: Barrier,
    spans: NDArray[np.float64],
    begins: NDArray[np.float64],
) -> tuple[RankRow, ...]:
    n_last = [int((barrier.last == place).sum()) for place in range(len(profiles))]
    chances = lateness_p(n_last, sum(n_last))
    others = barrier.wait_s.sum(axis=1)
    rows = []
    for place, profile in enumerate(profiles):
        was_last = barrier.last == place
        margins = barrier.margin_s[was_last]
        wait = barrier.wait_s[:, place]
        assert profile.rank is not None, "ordered by rank"
        rows.append(
            RankRow(
                rank=profile.rank,
                n_last=n_last[place],
                p=chances[place],
                late_s=float(np.median(margins)) if len(margins) else None,
                late_most_s=float(margins.max()) if len(margins) else None,
                wait_s=float(wait.sum()),
                hidden_s=_hidden_s(profile, profiles[0], begins[:, place], wait),
                wait_share=float(wait.sum() / spans[place]) if spans[place] > 0 else 0.0,
                caused_s=float(others[was_last].sum()),
                saves_s=float(margins.sum()),
                clock_offset_s=float(np.median(barrier.offset_s[:, place])),
            )
        )
    return tuple(rows)


def _hidden_s(
    profile: Profile, first: Profile, begins: NDArray[np.float64], wait: NDArray[np.float64]
) -> float:
    """How much of the waits lies under other work: of the device, or of the host without one."""
    work = profile.of("kernel", "copy")
    work = profile.of("op") if work.empty else work
    if work.empty:
        return 0.0
    starts = work["start_s"].to_numpy() + (profile.base_ns - first.base_ns) / 1e9
    ends = np.maximum.accumulate(starts + work["duration_s"].to_numpy())
    begun = np.maximum(starts, np.concatenate([[-np.inf], ends[:-1]]))
    busy = np.maximum(ends - begun, 0.0)
    knots = np.column_stack([begun, begun + busy]).ravel()
    done = np.column_stack([np.cumsum(busy) - busy, np.cumsum(busy)]).ravel()
    return float((np.interp(begins + wait, knots, done) - np.interp(begins, knots, done)).sum())


def _long(
    profiles: list[Profile], names: list[str], barrier: Barrier, ends: NDArray[np.float64]
) -> pd.DataFrame:
    n, n_ranks = barrier.ready_s.shape
    return pd.DataFrame(
        {
            "rank": np.tile([each.rank for each in profiles], n),
            "collective": np.repeat(np.arange(n), n_ranks),
            "name": np.repeat(names, n_ranks),
            "ready_s": barrier.ready_s.ravel(),
            "start_s": np.repeat(barrier.ready_s.max(axis=1), n_ranks),
            "end_s": ends.ravel(),
            "wait_s": barrier.wait_s.ravel(),
            "is_last": (barrier.last[:, None] == np.arange(n_ranks)).ravel(),
        }
    )
