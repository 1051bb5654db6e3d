"""Splits of a batch by links: against exhaustive search, by hand, and where links are missing."""

from itertools import pairwise, permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.stats.batch_split import HOP_S, Split, Work, islands, split_by_links, split_evenly
from harness.stats.ring import Route, along, best_route

GB = 1e9
WORK = Work(sequence_bytes=16384, sequence_s=2e-6, budget_s=13.5e-6)


def matrix(n: int, pairs: dict[tuple[int, int], float]) -> NDArray[np.float64]:
    links = np.zeros((n, n))
    for (one, other), width in pairs.items():
        links[one, other] = links[other, one] = width
    return links


def ring(first: int, width: float) -> dict[tuple[int, int], float]:
    """Four GPUs from `first` on, each linked to the next."""
    a, b, c, d = range(first, first + 4)
    return {(a, b): width, (b, c): width, (c, d): width, (a, d): width}


TWO_RINGS = matrix(8, ring(0, 150 * GB) | ring(4, 150 * GB))


def counts(split: Split) -> list[int]:
    return [share.n_sequences for share in split.shares]


def test_two_rings_share_alike_and_keep_the_remainder() -> None:
    """251 sequences over two equal rings are 126 and 125; the pieces add up to them."""
    split = split_by_links(TWO_RINGS, 60 * GB, 251, WORK)
    assert [share.route.order for share in split.shares] == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert sorted(counts(split)) == [125, 126]
    assert all(sum(share.pieces) == share.n_sequences for share in split.shares)
    assert not split.caveats


def test_a_micro_batch_is_the_largest_that_keeps_the_budget() -> None:
    """By hand: 1.5 x m x 16 KiB / 150 GB/s + 6 us <= 13.5 us gives m = 45."""
    (share, _) = split_by_links(TWO_RINGS, None, 200, WORK).shares
    assert share.micro_batch == 45
    route = share.route
    assert route.exchange_s(45 * 16384) <= 13.5e-6 < route.exchange_s(46 * 16384)
    assert share.pieces == (45, 45, 10)


def test_an_exchange_on_a_ring_costs_what_the_formula_says() -> None:
    """Four GPUs: 2 x 3/4 of the bytes over the slowest hop, and six hops; one GPU: nothing."""
    route = Route(order=(0, 1, 2, 3), is_ring=True, bytes_per_s=100 * GB, hop_s=1e-6)
    assert route.exchange_s(1e6) == pytest.approx(1.5e6 / 100e9 + 6e-6)
    alone = best_route(np.zeros((1, 1)), (0,), 1e-6, 1e6)
    assert alone is not None
    assert alone.exchange_s(1e9) == 0


def simulated(split: Split, place: int) -> float:
    """Pieces worked on one after another, each exchanged once it is done and the last one is."""
    share = split.shares[place]
    worked = done = 0.0
    for piece in share.pieces:
        worked += piece * WORK.sequence_s / len(share.route.order)
        done = max(worked, done) + share.route.exchange_s(piece * WORK.sequence_bytes)
    return done


@pytest.mark.parametrize("batch", [1, 44, 45, 46, 89, 90, 91, 1000])
@pytest.mark.parametrize("speed", [20 * GB, 150 * GB, 900 * GB])
def test_the_closed_form_is_the_pipeline_piece_by_piece(batch: int, speed: float) -> None:
    """Whether work or exchange is longer, and with or without a remainder."""
    split = split_by_links(matrix(4, ring(0, speed)), None, batch, WORK)
    assert split.total_s == pytest.approx(simulated(split, 0), rel=1e-12)
    (share,) = split.shares
    hidden = share.hidden_share
    assert hidden is not None
    assert -1e-9 <= hidden < 1


@pytest.mark.parametrize("batch", [1, 2, 7, 23])
def test_shares_are_the_best_of_all(batch: int) -> None:
    """No other way to deal the sequences among three unequal groups ends sooner."""
    pairs = {(0, 1): 300 * GB, (2, 3): 20 * GB}
    split = split_by_links(matrix(5, pairs), None, batch, WORK)
    assert len(split.shares) == 3
    times = []
    for dealt in product(range(batch + 1), repeat=3):
        if sum(dealt) == batch:
            tried = Split(
                shares=tuple(
                    type(share)(
                        route=share.route, work=WORK, n_sequences=n, micro_batch=share.micro_batch
                    )
                    for share, n in zip(split.shares, dealt, strict=True)
                )
            )
            times.append(max(simulated(tried, place) for place in range(3)))
    assert split.total_s == pytest.approx(min(times), rel=1e-12)


def test_the_slower_ring_gets_less() -> None:
    """A ring at a fifth of the other's bandwidth runs fewer sequences, both end alike."""
    links = matrix(8, ring(0, 150 * GB) | ring(4, 5 * GB))
    split = split_by_links(links, None, 1000, WORK)
    fast, slow = split.shares
    assert fast.n_sequences > 1.5 * slow.n_sequences
    assert fast.n_sequences + slow.n_sequences == 1000
    assert slow.total_s == pytest.approx(fast.total_s, rel=0.05)


def test_a_ring_that_lost_a_link_is_a_chain() -> None:
    """Without the link between 0 and 3 the way is 0-1-2-3 and back, at full bandwidth."""
    pairs = ring(0, 150 * GB)
    del pairs[0, 3]
    (share,) = split_by_links(matrix(4, pairs), 10 * GB, 100, WORK).shares
    assert share.route.order in {(0, 1, 2, 3), (3, 2, 1, 0)}
    assert not share.route.is_ring
    assert share.route.bytes_per_s == 150 * GB


def test_a_star_goes_over_the_host_or_is_left_out() -> None:
    """Links 0-1, 0-2, 0-3 make neither ring nor chain."""
    star = matrix(4, {(0, 1): 150 * GB, (0, 2): 150 * GB, (0, 3): 150 * GB})
    (share,) = split_by_links(star, 60 * GB, 10, WORK).shares
    assert share.route.bytes_per_s == 60 * GB
    without = split_by_links(star, None, 10, WORK)
    assert not without.shares
    assert "no way round" in without.caveats[0]


def test_one_gpu_runs_it_all() -> None:
    """No exchange, nothing hidden, the work of all sequences."""
    split = split_by_links(np.zeros((1, 1)), None, 10, WORK)
    (share,) = split.shares
    assert (share.n_sequences, share.exchange_s, share.hidden_share) == (10, 0, None)
    assert split.total_s == pytest.approx(10 * WORK.sequence_s)


def test_a_budget_that_no_sequence_keeps_is_a_caveat() -> None:
    """Six hops of 1 us are over 5 us: one sequence a piece, and it is said."""
    tight = Work(sequence_bytes=16384, sequence_s=2e-6, budget_s=5e-6)
    split = split_by_links(matrix(4, ring(0, 150 * GB)), None, 3, tight)
    assert split.shares[0].pieces == (1, 1, 1)
    assert "over the budget" in split.caveats[0]


def test_the_even_split_pays_for_the_slowest_hop() -> None:
    """One ring over both islands has the host's bandwidth and fourteen hops."""
    even = split_evenly(TWO_RINGS, 60 * GB, 250, WORK)
    assert even is not None
    (share,) = even.shares
    assert share.route.order == tuple(range(8))
    expected = 2 * 7 / 8 * 250 * 16384 / 60e9 + 14 * HOP_S + 250 * 2e-6 / 8
    assert even.total_s == pytest.approx(expected)
    assert split_by_links(TWO_RINGS, 60 * GB, 250, WORK).total_s < even.total_s
    assert split_evenly(TWO_RINGS, None, 250, WORK) is None


def test_the_best_way_round_is_the_best_of_all_orders() -> None:
    """Against every order of six GPUs on 40 random machines, ring and chain."""
    rng = np.random.default_rng(7)
    for _ in range(40):
        raw = rng.choice([0, 0, 25, 50, 100], size=(6, 6)) * GB
        links = np.triu(raw, 1) + np.triu(raw, 1).T
        gpus = tuple(range(6))
        orders = list(permutations(gpus))
        best = min(
            (
                Route(order=order, is_ring=is_ring, bytes_per_s=width, hop_s=1e-6).exchange_s(1e6)
                for order in orders
                for is_ring in (True, False)
                if (
                    width := min(
                        links[hop] for hop in pairwise((*order, order[0]) if is_ring else order)
                    )
                )
                > 0
            ),
            default=None,
        )
        found = best_route(links, gpus, 1e-6, 1e6)
        assert (found is None) == (best is None)
        if found is not None:
            assert found.exchange_s(1e6) == pytest.approx(best)


def test_islands_are_what_links_join() -> None:
    """Through others too; a GPU without links is an island."""
    assert islands(matrix(5, {(0, 3): GB, (3, 4): GB})) == [(0, 3, 4), (1,), (2,)]


def test_a_gap_in_the_ring_by_number_is_none() -> None:
    """`along` takes the order as it stands."""
    assert along(matrix(4, {(0, 1): GB, (1, 2): GB, (2, 3): GB}), (0, 1, 2, 3), 0) is None


def test_a_dense_machine_without_a_ring_is_soon_told() -> None:
    """Seven GPUs joined to nine others and not among themselves: found out without trying all."""
    links = matrix(16, {(one, other): GB for one in range(7) for other in range(7, 16)})
    assert best_route(links, tuple(range(16)), 0, 1) is None
