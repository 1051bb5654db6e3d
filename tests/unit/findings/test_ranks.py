import numpy as np
import pytest

from harness.base.errors import RecordError
from harness.findings.ranks import rank_table
from harness.findings.symptoms import Context, Symptom, straggler
from harness.records.profile import Event, Profile, to_frame


def profile(rank: int | None, events: list[Event], n_ranks: int = 2, base_ns: int = 0) -> Profile:
    return Profile(
        file=f"rank{rank}.json", tool="test", rank=rank, n_ranks=n_ranks, base_ns=base_ns,
        events=to_frame(events, rank),
    )  # fmt: skip


def reduce(start_s: float, end_s: float, sequence: int | None = None) -> Event:
    return Event("collective", "all_reduce", start_s, end_s - start_s, sequence=sequence)


def ranks(seed: int, late_s: float, n_ranks: int = 4, n: int = 80) -> list[Profile]:
    """A run of ranks whose clocks are seconds apart, one of them late."""
    rng = np.random.default_rng(seed)
    ready = np.arange(n)[:, None] * 0.02 + rng.exponential(0.001, (n, n_ranks))
    ready[:, 1] += late_s
    end = ready.max(axis=1, keepdims=True) + 0.0003 + rng.exponential(0.0003, (n, n_ranks))
    return [
        profile(
            rank,
            [reduce(b + rank, e + rank) for b, e in zip(ready[:, rank], end[:, rank], strict=True)],
            n_ranks,
        )
        for rank in range(n_ranks)
    ]


def straggler_of(profiles: list[Profile]) -> Symptom | None:
    return straggler.check(Context(ranks=rank_table(profiles).meetings))


def test_the_wait_is_the_early_ranks_and_the_cause_the_late_ones() -> None:
    """Ready at 124 and 287 us: 163 us are rank 0's wait, caused by rank 3."""
    both = [
        profile(0, [reduce(124e-6, 350e-6), reduce(1.0, 1.000163)]),
        profile(3, [reduce(287e-6, 350e-6), reduce(1.0001, 1.000163)]),
    ]
    early, late = rank_table(both).rows
    assert (early.rank, early.n_last, late.rank, late.n_last) == (0, 0, 3, 2)
    assert early.wait_s == pytest.approx(263e-6)
    assert late.wait_s == 0
    assert late.caused_s == pytest.approx(263e-6)
    assert late.saves_s == pytest.approx(263e-6)
    assert late.late_most_s == pytest.approx(163e-6)
    assert early.late_s is None
    assert early.wait_share == pytest.approx(263e-6 / (1.000163 - 124e-6))


def test_a_wait_under_other_work_is_hidden() -> None:
    """Of a wait of 4 s, kernels that overlap each other cover 1.5 s."""
    kernels = [Event("kernel", "before", 1.0, 3.0), Event("kernel", "a", 11.0, 1.0),
               Event("kernel", "b", 11.5, 0.2), Event("kernel", "c", 13.5, 5.0)]  # fmt: skip
    early = profile(0, [reduce(10.0, 15.0), *kernels])
    late = profile(1, [reduce(14.0, 15.0)])
    first, second = rank_table([early, late]).rows
    assert first.wait_s == 4.0
    assert first.hidden_s == pytest.approx(1.5)
    assert second.hidden_s == 0


def test_sequence_numbers_match_profiles_of_other_steps() -> None:
    """One rank's profile began a collective later; the others of it are matched all the same."""
    first = profile(0, [reduce(0.0, 2.0, 7), reduce(10.0, 12.0, 8), reduce(20.0, 22.0, 9)])
    second = profile(1, [reduce(11.5, 12.0, 8), reduce(21.5, 22.0, 9)])
    table = rank_table([first, second])
    assert table.n_collectives == 2
    assert table.rows[0].wait_s == pytest.approx(3.0)
    assert any(each.startswith("1 of 3 collectives are not in") for each in table.caveats)


def test_the_group_with_most_collectives_is_told() -> None:
    """Two groups of two: the larger one's table, and a hint at the other."""
    told = [
        profile(rank, [Event("collective", "all_reduce", i + late, 1 - late, group=group)
                       for i in range(n)])
        for rank, group, n, late in ((0, "a", 2, 0.0), (1, "a", 2, 0.0), (2, "b", 3, 0.25),
                                     (3, "b", 3, 0.0))
    ]  # fmt: skip
    table = rank_table(told)
    assert [(row.rank, row.wait_s) for row in table.rows] == [(2, 0.0), (3, 0.75)]
    assert any("ranks 2, 3 alone" in each for each in table.caveats)


def test_without_numbers_profiles_of_other_steps_are_refused() -> None:
    """The second of one rank need not be the second of another."""
    with pytest.raises(RecordError, match=r"rank 0: 2, rank 1: 1\).*no sequence number"):
        rank_table([profile(0, [reduce(0, 1), reduce(2, 3)]), profile(1, [reduce(0, 1)])])


def test_a_base_of_each_file_is_taken_into_account() -> None:
    """The same moment told from two bases: the clocks differ by nothing."""
    first = profile(0, [reduce(5.0, 9.0)], base_ns=1_000_000_000)
    second = profile(1, [reduce(2.0, 4.0)], base_ns=6_000_000_000)
    assert rank_table([first, second]).rows[1].clock_offset_s == 0


def test_what_is_no_set_of_ranks_is_told() -> None:
    """No rank, a rank twice, ranks missing, nothing in common, a broadcast alone."""
    one = profile(0, [reduce(0, 1)])
    with pytest.raises(RecordError, match="does not say which rank"):
        rank_table([one, profile(None, [])])
    with pytest.raises(RecordError, match="rank 0 again"):
        rank_table([one, one])
    with pytest.raises(RecordError, match="no collective that at least two"):
        rank_table([one, profile(1, [])])
    sent = Event("collective", "broadcast", 0.0, 1.0)
    with pytest.raises(RecordError, match="no collective that at least two"):
        rank_table([profile(0, [sent]), profile(1, [sent])])
    some = rank_table([profile(0, [reduce(0, 1)], 8), profile(1, [reduce(0, 1)], 8)])
    assert any(each.startswith("2 of 8 ranks given") for each in some.caveats)


@pytest.mark.parametrize("seed", range(6))
def test_a_late_rank_is_the_straggler(seed: int) -> None:
    """Planted: rank 1 comes 5 ms late to each collective of a 20 ms loop."""
    found = straggler_of(ranks(seed, late_s=0.005))
    assert found is not None
    assert found.seen.startswith("rank 1 came last to ")
    assert found.strength > 3
    assert found.evidence[0].value == pytest.approx(0.004 / 0.02, rel=0.3)


@pytest.mark.parametrize("seed", range(12))
def test_ranks_alike_have_no_straggler(seed: int) -> None:
    """Jitter alone, as large as a twentieth of the loop, names nobody."""
    assert straggler_of(ranks(seed, late_s=0.0)) is None


@pytest.mark.parametrize("seed", range(3))
def test_one_long_pause_is_no_straggler(seed: int) -> None:
    """A tenth of the time lost in one collective: costly, but no rank that is late every time."""
    profiles = ranks(seed, late_s=0.0)
    events = profiles[2].events
    events.loc[events.index >= 40, "start_s"] += 0.2
    for each in (profiles[0], profiles[1], profiles[3]):
        is_there = each.events.index == 40
        each.events.loc[is_there, "duration_s"] += 0.2
        each.events.loc[each.events.index > 40, "start_s"] += 0.2
    table = rank_table(profiles)
    assert table.rows[2].saves_s > 0.05 * table.span_s
    assert straggler.check(Context(ranks=table.meetings)) is None


def test_a_lateness_that_costs_nothing_is_no_straggler() -> None:
    """Always last, but by a fiftieth of the loop at most."""
    table = rank_table(ranks(3, late_s=0.0013))
    assert min(row.p for row in table.rows) < 1e-3
    assert straggler.check(Context(ranks=table.meetings)) is None
    assert straggler.check(Context()) is None
