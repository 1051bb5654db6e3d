"""One engine process as its parent holds it: started, connected, ended.

It hangs on a socket pair: whichever process ends, the other notices. Its options are those of its
pool.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from harness.base.errors import SetupError
from harness.server.adaptive_batching import Costs
from harness.server.engine_link import EngineLink
from harness.server.pool_costs import PoolCosts
from harness.server.pools import Pool

if TYPE_CHECKING:
    from harness.server.engine_series import EngineSeries
    from harness.server.options import ServerOptions
    from harness.server.pools import Pools
    from harness.server.tokenizer import TextTokenizer


class EngineChild:
    """A running engine process and our end of the socket pair."""

    def __init__(self, options: ServerOptions) -> None:
        self._options = options
        self._name = options.pool[0].name
        self._end, theirs = socket.socketpair()
        root = str(Path(__file__).parents[2])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]),
            # Read when torch is loaded; `set_num_threads` comes later and bounds the same pool.
            "OMP_NUM_THREADS": str(options.threads),
        }
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603  our own module and a number
                [sys.executable, "-m", "harness.server.engine_process", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sys.stderr,
                env=environment,
            )

    async def connect(
        self, tokenizer: TextTokenizer, pools: Pools, series: EngineSeries
    ) -> tuple[Pool, int]:
        """Send the options and wait for the model; the pool and its longest context.

        Raises:
            SetupError: The engine could not start; says why.
        """
        _, link = await asyncio.get_running_loop().create_unix_connection(
            lambda: EngineLink(self._name, series, lambda jobs: pools.lose(self._name, jobs)),
            sock=self._end,
        )
        link.start({"options": self._options.model_dump(mode="json"), **tokenizer.for_engine})
        first = await link.ready
        if "failed" in first:
            raise SetupError(f"the engine did not start: {first['failed']}")
        link.costs = PoolCosts(Costs(*first["ready"]["costs"]))
        return Pool(self._options, link, self._process.pid), first["ready"]["max_model_len"]

    def end(self) -> None:
        """Wait for the engine to see its closed socket; then insist."""
        self._end.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
