"""A load process that has other things to do: 10 ms of computing in every 15 ms, in its event loop.

What a locustfile with heavy callbacks does to a client. For `tools/stamp_error.py`.
"""

import time
from typing import Any, Final

import gevent
from locust import events
from locust.env import Environment

from harness.load.users import GridUser

__all__ = ["GridUser"]

BUSY_S: Final = 0.010
FREE_S: Final = 0.005


def _compute() -> None:
    while True:
        until = time.perf_counter() + BUSY_S
        while time.perf_counter() < until:
            pass
        gevent.sleep(FREE_S)


@events.test_start.add_listener  # type: ignore[untyped-decorator]  # locust is not typed here
def _begin(environment: Environment, **_: Any) -> None:
    greenlet = gevent.spawn(_compute)
    environment.events.test_stop.add_listener(lambda **_: greenlet.kill(block=False))
