"""Connections to the store: bounded, in turn, never lost."""

import asyncio
import threading

import pytest

from harness.server.connections import Connections
from harness.server.faults import Pause


def test_connections_are_bounded_and_go_to_who_came_first() -> None:
    """Two of two are taken; a third and a fourth wait, and get them in their order."""

    async def scene() -> None:
        pool = Connections(2)
        await pool.take()
        await pool.take()
        order: list[str] = []

        async def client(name: str) -> None:
            await pool.take()
            order.append(name)

        clients = [asyncio.ensure_future(client(name)) for name in ("third", "fourth")]
        await asyncio.sleep(0)
        assert (pool.in_use, pool.n_waiting, order) == (2, 2, [])
        pool.give_back()
        await clients[0]
        assert (pool.in_use, pool.n_waiting, order) == (2, 1, ["third"])
        pool.give_back()
        await clients[1]
        assert order == ["third", "fourth"]
        pool.give_back()
        pool.give_back()
        assert (pool.in_use, pool.n_waiting) == (0, 0)

    asyncio.run(scene())


@pytest.mark.parametrize("has_come", [False, True])
def test_a_client_that_leaves_the_line_takes_no_connection_with_it(*, has_come: bool) -> None:
    """Cancelled before its turn, or when it had come but was not noticed: nothing stays taken."""

    async def scene() -> None:
        pool = Connections(1)
        await pool.take()
        waiting = asyncio.ensure_future(pool.take())
        await asyncio.sleep(0)
        if has_come:
            pool.give_back()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if not has_come:
            assert (pool.in_use, pool.n_waiting) == (1, 0)
            pool.give_back()
        assert (pool.in_use, pool.n_waiting) == (0, 0)

    asyncio.run(scene())


def test_a_thread_waits_for_its_turn() -> None:
    """A thread that finds all taken stands still until one is given back."""
    pool = Connections(1)
    pool.take_blocking()
    has_it = threading.Event()

    def take_and_tell() -> None:
        pool.take_blocking()
        has_it.set()

    thread = threading.Thread(target=take_and_tell)
    thread.start()
    assert not has_it.wait(0.05)
    pool.give_back()
    assert has_it.wait(20)
    thread.join()
    assert pool.in_use == 1


def test_the_planted_loss_takes_all_for_its_time_and_gives_them_back() -> None:
    """All connections are in use together, again and again, and none once it is over."""

    async def scene() -> None:
        pool = Connections(3)
        losing = asyncio.ensure_future(pool.lose(Pause(duration_s=0.02, period_s=0.03)))
        for _ in range(2):
            while pool.in_use < 3:  # noqa: ASYNC110  a counter, no event
                await asyncio.sleep(0.001)
            await pool.take()  # a row that came meanwhile has its turn afterwards
            pool.give_back()
        losing.cancel()
        await asyncio.wait([losing])
        assert (pool.in_use, pool.n_waiting) == (0, 0)

    asyncio.run(scene())
