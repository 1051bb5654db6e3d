"""The bundled server under three clients for a while, healthy or with faults planted."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Final, NamedTuple

from harness.base.clock import SystemClock
from harness.server.options import ServerOptions
from harness.server.process import start_server
from tests.e2e.plain_client import Client

N_CLIENTS: Final = 3
PAUSE_S: Final = 0.05
WORDS: Final = "the river ran past the old house and the child asked why it never stopped " * 4
BODY: Final = {"prompt": WORDS, "max_tokens": 12, "ignore_eos": True, "temperature": 0}


class Served(NamedTuple):
    """A time of service.

    Attributes:
        span: its begin and end, seconds since the epoch.
        n: requests of all clients.
        n_prompt: tokens of the prompt that each of them sends.
    """

    span: tuple[float, float]
    n: int
    n_prompt: int


def serve(port: int, faults: str, seconds: float) -> Served:
    """Start the server, let the clients ask in turns of their own, and stop it."""
    options = ServerOptions.model_validate({"port": port, "faults": faults, "threads": 1})
    over = threading.Event()

    def ask(client: Client) -> int:
        n = 0
        while not over.is_set():
            client.post("/v1/completions", {**BODY, "model": "tiny"})
            n += 1
            over.wait(PAUSE_S)
        return n

    with start_server(options) as server, ThreadPoolExecutor(N_CLIENTS) as pool:
        client = Client(server.url)
        start = SystemClock().realtime_ns() / 1e9
        asking = [pool.submit(ask, client) for _ in range(N_CLIENTS)]
        time.sleep(seconds)
        end = SystemClock().realtime_ns() / 1e9
        over.set()
        n = sum(each.result() for each in asking)
        n_prompt = client.post("/tokenize", {"prompt": WORDS, "model": "tiny"}).json["count"]
    return Served((start, end), n, n_prompt)
