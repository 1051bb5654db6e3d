"""The engine's process: reads commands from the front, steps, writes events back.

Started as `python -m harness.server.engine_process FD`, where FD is one end of a socket pair; the
first frame brings the options. Between steps commands are drained without blocking; with nothing to
do the process sleeps in the kernel. A closed socket means that the front is gone, and ends it.
Events are written without blocking too: a front that reads late never holds a step up.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING

import torch

from harness.base.errors import SetupError, TailbreakError
from harness.server.accel import EXACT_FEATURES, mode_of
from harness.server.adaptive_batching import StepCosts
from harness.server.checkpoint import load_model
from harness.server.collector import QUIET_S, Collector
from harness.server.device import require_device
from harness.server.engine import Engine
from harness.server.faults import Faults, PlannedPauses, SlowedStopwatch
from harness.server.frames import Frame, FrameReader, encode_frame
from harness.server.garbage import Garbage
from harness.server.options import ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import SamplingParams, Segment, Sequence

if TYPE_CHECKING:
    from collections.abc import Sequence as AbstractSequence

    from harness.server.engine import StepEvents

_READ_SIZE = 1 << 20


class FrontGoneError(Exception):
    """The other end of the socket pair is closed."""


class FrontLink:
    """The engine's end of the socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._socket.setblocking(False)  # noqa: FBT003  the standard library's signature
        self._reader = FrameReader()
        self._unsent = bytearray()

    def receive(self, timeout_s: float | None) -> list[Frame]:
        """Return the commands that are there, waiting at most `timeout_s` (None: for ever)."""
        frames: list[Frame] = []
        writers = [self._socket] if self._unsent else []
        if timeout_s is None or timeout_s > 0:
            select.select([self._socket], writers, [], timeout_s)
        while True:
            try:
                data = self._socket.recv(_READ_SIZE)
            except BlockingIOError:
                break
            except OSError as error:
                raise FrontGoneError from error
            if not data:
                raise FrontGoneError
            frames += self._reader.feed(data)
        self._flush()
        return frames

    def send(self, frame: Frame) -> None:
        """Write a frame, or keep what the socket does not take for later."""
        self._unsent += encode_frame(frame)
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            try:
                n_sent = self._socket.send(self._unsent)
            except BlockingIOError:
                return
            except OSError as error:
                raise FrontGoneError from error
            del self._unsent[:n_sent]


def read_sequence(frame: Frame) -> Sequence:
    """Build a sequence from an `add` command."""
    return Sequence(
        id=frame["id"],
        order=frame["id"],
        mode=mode_of(tuple(frame["features"])),
        tokens=frame["tokens"],
        segments=tuple(
            Segment(kind=kind, n_tokens=n_tokens, forced=tuple(forced))
            for kind, n_tokens, forced in frame["segments"]
        ),
        params=SamplingParams(**frame["params"]),
        charged_until_ns=frame["sent_ns"],
        phases_ns=dict(frame.get("account", {})),
        n_accounts=frame["n_accounts"],
    )


def serve_front(link: FrontLink, engine: Engine, faults: Faults, collector: Collector) -> None:
    """Step until the front closes the socket."""
    heard: list[tuple[int, int]] = []
    pauses = GcPauses(lambda *pause: heard.append(pause)).install()
    watch = SlowedStopwatch(pauses, faults.slowdowns) if faults.slowdowns else Stopwatch(pauses)
    planned = PlannedPauses(faults, watch.last_ns, engine.scheduler.evict_all)
    garbage = Garbage(faults.garbage_bytes_per_s, watch.last_ns)
    was_idle = True
    while True:
        commands = next_commands(link, engine, collector)
        if was_idle:
            watch.restart(time.perf_counter_ns())
        obey(engine, commands)
        if not engine.has_work:
            was_idle = True
            continue
        planned.take(watch)
        garbage.make(watch)
        collector.tune(is_tuned=engine.scheduler.next_mode.is_gc_tuned)
        collector.bound()
        events = engine.step(watch, was_idle=was_idle)
        watch.restart(events.until_ns)
        link.send(step_frame(events, engine, searches(heard, pauses)))
        was_idle = not engine.has_work


def next_commands(link: FrontLink, engine: Engine, collector: Collector) -> list[Frame]:
    """Return what the front has sent; without work wait for it, and use the quiet."""
    if engine.has_work:
        return link.receive(0.0)
    if collector.is_due:
        commands = link.receive(QUIET_S)
        if commands:
            return commands
        collector.tidy()
    return link.receive(None)


def obey(engine: Engine, commands: AbstractSequence[Frame]) -> None:
    """Carry out the front's commands in order."""
    for command in commands:
        if command["do"] == "add":
            engine.add(read_sequence(command))
        else:
            engine.cancel(command["id"])


def searches(heard: list[tuple[int, int]], pauses: GcPauses) -> Frame:
    """Tell of the garbage searches since the last time, if there were any."""
    if not heard:
        return {}
    told = {"gc": {"n_allocated": pauses.n_allocated, "pauses": heard.copy()}}
    heard.clear()
    return told


def step_frame(events: StepEvents, engine: Engine, searched: Frame) -> Frame:
    """Tell the front what a step brought."""
    return {
        "until_ns": events.until_ns,
        "n_batch": events.n_batch,
        "tokens": events.tokens,
        "ends": events.ends,
        "state": state(engine),
        **searched,
    }


def state(engine: Engine) -> dict[str, int]:
    """Describe the engine's present state for `/metrics`."""
    scheduler = engine.scheduler
    return {
        "running": len(scheduler.resident),
        "waiting": len(scheduler.waiting),
        "kv_held": scheduler.n_held,
        "kv_kept": scheduler.n_kept,
        "evictions": scheduler.n_evictions,
        "prefix_queries": scheduler.n_cache_queries,
        "prefix_hits": scheduler.n_cache_hits,
    }


def use_threads(n: int) -> None:
    """Have torch compute with so many threads; once a process, before anything is computed."""
    torch.set_num_threads(n)
    torch.set_num_interop_threads(1)


def build_engine(options: ServerOptions, start: Frame) -> tuple[Engine, int]:
    """Load the model the options ask for; return the engine and its longest context."""
    (pool,) = options.pool
    device = require_device(pool.device, pool.name)
    model = load_model(options.model_folder, getattr(torch, pool.dtype)).to(device)
    n_text, n_model = start["vocab_size"], model.config.vocab_size
    if n_text > n_model:
        raise SetupError(
            f"--model {options.model}: the tokenizer has {n_text} tokens, the model {n_model}. "
            "Use weights and tokenizer of the same model."
        )
    max_model_len = min(options.max_model_len or model.config.max_context, model.config.max_context)
    engine = Engine(
        model,
        options,
        max_model_len=max_model_len,
        # Rows that pad the vocabulary stand for no text.
        control_ids=[*start["control_ids"], *range(n_text, n_model)],
        stop_ids=start["stop_ids"],
    )
    warm_up(engine, min(max_model_len, options.kv_tokens) // 4)
    return engine, max_model_len


def warm_up(engine: Engine, n_prompt: int) -> None:
    """Run short requests, so that the first user does not pay for torch's lazy start.

    What steps cost is measured on the second. The baseline comes last: it leaves the arena without
    kept blocks.
    """
    watch = Stopwatch(GcPauses())
    for index, features in enumerate((EXACT_FEATURES, EXACT_FEATURES, ())):
        engine.scheduler.costs = engine.scheduler.costs if index > 1 else StepCosts()
        engine.add(
            Sequence(
                id=index - 3,
                order=index - 3,
                mode=mode_of(features),
                tokens=[index] * max(1, n_prompt),
                segments=(Segment(kind="content", n_tokens=4),),
                params=SamplingParams(temperature=1.0, top_p=0.9, presence=0.1, ignore_eos=True),
                charged_until_ns=watch.last_ns,
            )
        )
        while engine.has_work:
            engine.step(watch)
            watch.restart(watch.last_ns)
    engine.n_tokens_generated = 0
    engine.scheduler.n_evictions = engine.scheduler.n_cache_queries = 0
    assert engine.scheduler.n_kept == engine.scheduler.n_cache_hits == 0


def main() -> None:
    """Serve the socket whose number is the first argument."""
    # Ctrl-C and service managers signal the whole group; the front decides when the engine ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    link = FrontLink(socket.socket(fileno=int(sys.argv[1])))
    try:
        first = link.receive(None)
        try:
            options = ServerOptions.model_validate(first[0]["options"])
            use_threads(options.threads)
            engine, max_model_len = build_engine(options, first[0])
        except TailbreakError as error:
            link.send({"failed": str(error)})
            return
        collector = Collector()
        costs = engine.scheduler.costs.estimate()
        link.send({"ready": {"max_model_len": max_model_len, "costs": costs}})
        if options.faults.words:
            print(f"faults are planted: {options.faults}", file=sys.stderr, flush=True)  # noqa: T201  whatever the log level
        serve_front(link, engine, options.faults, collector)
    except FrontGoneError:
        os._exit(0)


if __name__ == "__main__":
    main()
