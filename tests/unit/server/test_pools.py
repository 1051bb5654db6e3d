"""Which pool runs a request, and what becomes of it when the pool dies: links to played engines."""

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from harness.server.adaptive_batching import Costs
from harness.server.api_error import ApiError
from harness.server.engine_link import EngineLink
from harness.server.engine_series import EngineSeries
from harness.server.frames import Frame, FrameReader, encode_frame
from harness.server.job import EndItem, Job, TokenItem
from harness.server.options import ServerOptions
from harness.server.pool_costs import Left, PoolCosts
from harness.server.pools import Placement, Pool, Pools

STATE = {"running": 1, "waiting": 0, "kv_held": 64, "kv_kept": 0}
STATE |= {"evictions": 2, "prefix_queries": 9, "prefix_hits": 3}
SLOW = Costs(fixed_s=0.02, prefill_token_s=0.001, decode_s=0.001)
FAST = Costs(fixed_s=0.001, prefill_token_s=0.0001, decode_s=0.0001)


class PlayedEngine:
    """The engine's end of a link, in the hands of a test."""

    def __init__(self) -> None:
        self.ours, self._theirs = socket.socketpair()
        self._theirs.setblocking(False)  # noqa: FBT003  the standard library's signature
        self._reader = FrameReader()

    def commands(self) -> list[Frame]:
        """What the front has sent since the last time."""
        data = b""
        with contextlib.suppress(BlockingIOError):
            data = self._theirs.recv(1 << 16)
        return self._reader.feed(data)

    async def step(self, tokens: list[tuple[int, int]], ends: list[tuple[int, str]] = []) -> None:  # noqa: B006  read only
        """Tell a step: (id, token) drawn, (id, reason) ended."""
        frame = {
            "until_ns": time.perf_counter_ns(),
            "tokens": [(number, token, "content", {"ffn": 1}, None) for number, token in tokens],
            "ends": [(number, reason, 0, 9, [], {"ffn": 5}, 0) for number, reason in ends],
            "state": STATE,
            "n_batch": len(tokens),
        }
        self._theirs.sendall(encode_frame(frame))
        await settle()

    async def die(self) -> None:
        """Close the socket, as a killed process does."""
        self._theirs.close()
        await settle()


async def settle() -> None:
    """Let the event loop hand on what lies in its sockets."""
    for _ in range(5):
        await asyncio.sleep(0)
    await asyncio.sleep(0.005)


class Scene:
    """Pools whose engines are played."""

    def __init__(self, *words: str) -> None:
        self.options = ServerOptions.model_validate({"pool": words})
        self.engines = {pool.name: PlayedEngine() for pool in self.options.pool}
        self.n_last_deaths = 0
        self.pools = Pools(self._on_last_death)
        self.series = EngineSeries()

    def _on_last_death(self) -> None:
        self.n_last_deaths += 1

    async def start(self) -> None:
        """Connect every pool."""
        loop = asyncio.get_running_loop()
        for own in self.options.pool:
            name = own.name
            _, link = await loop.create_unix_connection(
                lambda name=name: EngineLink(
                    name, self.series, lambda jobs: self.pools.lose(name, jobs)
                ),  # type: ignore[misc]
                sock=self.engines[name].ours,
            )
            self.pools.add(Pool(self.options.of_pool(own), link, os.getpid()))

    def place(self, *features: str, n_slots: int = 64, n_output: int = 8) -> Placement:
        """Place a request of one sequence."""
        return self.pools.place(features, [Left(3, n_output)], n_slots=n_slots)

    def submit(self, placement: Placement, n_output: int = 8, path: str = "baseline") -> Job:
        """Hand a sequence to its pool."""
        command: Frame = {"tokens": [1, 2, 3], "sent_ns": time.perf_counter_ns()}
        job = Job(
            placement=placement,
            path=path,
            command=command,
            n_output=n_output,
            has_items=asyncio.Event(),
        )
        placement.pool.link.take(job)
        return job


@contextlib.asynccontextmanager
async def playing(*words: str) -> AsyncIterator[Scene]:
    scene = Scene(*words)
    await scene.start()
    try:
        yield scene
    finally:
        scene.pools.close()
        await settle()
        for engine in scene.engines.values():
            await engine.die()


def run(scene: Any) -> None:
    asyncio.run(scene())


def tokens_of(items: list[TokenItem | EndItem]) -> list[int]:
    return [item.token_id for item in items if isinstance(item, TokenItem)]


def end_of(items: list[TokenItem | EndItem]) -> EndItem:
    (end,) = [item for item in items if isinstance(item, EndItem)]
    assert items[-1] is end
    return end


def test_only_device_pool_leaves_the_first_pool() -> None:
    """The baseline and other features run in the first pool, however much waits there."""

    async def scene() -> None:
        async with playing("a=cpu,seqs=1", "b=cpu") as on:
            for _ in range(9):
                on.submit(on.place("paged_kv", "prefix_cache"))
            assert on.place().pool.name == "a"
            assert on.place("gc_tuned").pool.name == "a"
            assert on.place("device_pool").pool.name == "b"
            assert on.pools.n_jobs == 9
            assert on.pools.n_slots == 9

    run(scene)


def test_the_pool_that_would_be_done_first_is_chosen() -> None:
    """The faster one while both are idle; the slower one when the faster is full enough."""

    async def scene() -> None:
        async with playing("slow=cpu", "fast=cpu,seqs=1") as on:
            for name, costs in (("slow", SLOW), ("fast", FAST)):
                (pool,) = [pool for pool in on.pools.living if pool.name == name]
                pool.link.costs = PoolCosts(costs)
            names = []
            for _ in range(30):
                placement = on.place("device_pool")
                names.append(placement.pool.name)
                on.submit(placement)
            # A request takes 0.17 s on the slow pool, 0.01 s on the fast one, which has one slot.
            assert names[:10] == ["fast"] * 10
            assert "slow" in names

    run(scene)


def test_work_that_is_done_no_longer_counts() -> None:
    """A prediction falls with every token that a sequence has been given."""

    async def scene() -> None:
        async with playing("a=cpu,seqs=1") as on:
            job = on.submit(on.place())
            (pool,) = on.pools.living
            predictions = [pool.predict_s([Left(3, 8)])]
            for token in range(4):
                await on.engines["a"].step([(job.id, token)])
                predictions.append(pool.predict_s([Left(3, 8)]))
            assert predictions == sorted(predictions, reverse=True)
            assert len(set(predictions)) == 5

    run(scene)


def test_pools_of_another_dtype_run_only_what_names_them() -> None:
    """`device_pool` keeps to the first pool's dtype; each word opens its own pools."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu,dtype=bfloat16") as on:
            assert on.pools.named == ("device_pool:bf16",)
            assert on.place("device_pool", n_output=900).pool.name == "a"
            assert on.place("device_pool:bf16").pool.name == "b"
            for _ in range(20):
                on.submit(on.place())
            assert on.place("device_pool").pool.name == "a"
            assert on.place("device_pool", "device_pool:bf16").pool.name == "b"
        async with playing("a=cpu,dtype=bfloat16", "b=cpu") as on:
            assert on.pools.named == ("device_pool:fp32",)

    run(scene)


def test_a_request_goes_where_it_fits() -> None:
    """A pool with too little KV is no candidate; the limit is that of the largest candidate."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu,kv_tokens=640,seqs=64") as on:
            for _ in range(50):
                on.submit(on.place())
            assert on.place("device_pool", n_slots=640).pool.name == "b"
            assert on.place("device_pool", n_slots=656).pool.name == "a"
            assert on.pools.most_kv_tokens(("device_pool",)) == 2560
        async with playing("a=cpu,kv_tokens=640", "b=cpu") as on:
            assert on.pools.most_kv_tokens(()) == 640
            assert on.pools.most_kv_tokens(("device_pool",)) == 2560

    run(scene)


def test_a_request_of_a_dead_pool_goes_on_elsewhere() -> None:
    """Tokens that were handed on are compared and not repeated; lost time is told as `stall`."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu") as on:
            placement = on.place()
            first, second = on.submit(placement), on.submit(placement)
            assert on.engines["a"].commands()[0]["tokens"] == [1, 2, 3]
            await on.engines["a"].step([(first.id, 7), (second.id, 4)])
            await on.engines["a"].step([(first.id, 8), (second.id, 5)], [(second.id, "stop")])
            await on.engines["a"].die()
            assert (placement.pool.name, placement.n_restarts) == ("b", 1)
            assert on.pools.states == {"a": "died", "b": "ok"}
            assert on.pools.restarts == {"a": 1, "b": 0}
            (again,) = on.engines["b"].commands()
            assert (again["do"], again["tokens"]) == ("add", [1, 2, 3])
            assert again["account"]["stall"] > 0
            for token in (7, 8, 9):
                await on.engines["b"].step([(first.id, token)])
            await on.engines["b"].step([], [(first.id, "length")])
            items = first.take()
            assert tokens_of(items) == [7, 8, 9]
            assert end_of(items).reason == "length"
            assert end_of(second.take()).reason == "stop"
            assert on.n_last_deaths == 0
            assert on.place().pool.name == "b"
            assert on.pools.n_jobs == 0

    run(scene)


@pytest.mark.parametrize("tokens", [[7, 6], [7]])
def test_a_second_run_that_disagrees_fails_cleanly(tokens: list[int]) -> None:
    """Another token, or an end before the tokens that were sent: an error and no wrong text."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu") as on:
            job = on.submit(on.place())
            await on.engines["a"].step([(job.id, 7)])
            await on.engines["a"].step([(job.id, 8)])
            await on.engines["a"].die()
            for token in tokens:
                await on.engines["b"].step([(job.id, token)])
            await on.engines["b"].step([], [(job.id, "stop")])
            items = job.take()
            assert tokens_of(items) == [7, 8]
            assert end_of(items).reason == "replay_differs"
            assert on.pools.n_jobs == 0

    run(scene)


def test_a_request_restarts_once() -> None:
    """When the second pool dies under it as well, it fails, though a third one is left."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu", "c=cpu") as on:
            placement = on.place()
            job = on.submit(placement)
            await on.engines["a"].die()
            await on.engines["b"].die()
            assert end_of(job.take()).reason == "engine_died"
            assert placement.n_restarts == 1
            assert on.engines["c"].commands() == []
            assert on.place("device_pool").pool.name == "c"

    run(scene)


def test_a_request_does_not_restart_in_another_dtype_or_where_it_does_not_fit() -> None:
    """The same tokens need the same dtype; without such a pool requests fail and say so."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu,dtype=bfloat16", "c=cpu,kv_tokens=64") as on:
            job = on.submit(on.place(n_slots=128))
            await on.engines["a"].die()
            assert end_of(job.take()).reason == "engine_died"
            await on.engines["c"].die()
            with pytest.raises(ApiError, match="no pool of float32 is left") as refused:
                on.place()
            assert refused.value.status == 503
            assert on.place("device_pool:bf16").pool.name == "b"
            assert on.n_last_deaths == 0
            await on.engines["b"].die()
            assert on.n_last_deaths == 1
            assert not on.pools.is_alive

    run(scene)


def test_a_stopped_or_abandoned_sequence_is_not_written_again() -> None:
    """One that only waits for its end is cancelled at once; nobody restarts an abandoned one."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu") as on:
            stopped, left = on.submit(on.place()), on.submit(on.place())
            await on.engines["a"].step([(stopped.id, 7)])
            stopped.stop()
            left.abandon()
            await on.engines["a"].die()
            commands = on.engines["b"].commands()
            assert [command["do"] for command in commands] == ["add", "cancel"]
            await on.engines["b"].step([], [(stopped.id, "cancelled")])
            assert end_of(stopped.take()).reason == "cancelled"
            assert left.take() == []

    run(scene)


def test_what_a_pool_told_outlives_it() -> None:
    """The latest state stays with the link when the engine dies; the dead pool is still listed."""

    async def scene() -> None:
        async with playing("a=cpu", "b=cpu") as on:
            for engine in on.engines.values():
                await engine.step([])
            await on.engines["a"].die()
            assert [pool.name for pool in on.pools.members] == ["a", "b"]
            assert [pool.link.is_alive for pool in on.pools.members] == [False, True]
            assert [pool.link.state for pool in on.pools.members] == [STATE, STATE]

    run(scene)


def test_closing_is_no_death() -> None:
    """A server that ends says nothing of dead pools."""

    async def scene() -> None:
        async with playing("a=cpu") as on:
            on.pools.close()
            await settle()
            assert on.n_last_deaths == 0

    run(scene)
