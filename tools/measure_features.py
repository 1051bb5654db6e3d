"""What the accelerated features do to latency and throughput: feature sets side by side.

    python tools/measure_features.py [REPEATS]

Runs the engine alone, in this process, on one thread, with the embedded model. Each workload is a
closed loop: whoever ends is replaced at once. Its clock, for the engine too, is the processor time
of the thread, which neighbours on the same machine disturb less than the wall. Feature sets take
turns, in an order that is turned around each time; told are the median over the repeats and, beside
`paged_kv`, the median and range of the ratios within a repeat. Below 1 is less.
"""

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import torch

from harness.server.accel import mode_of
from harness.server.checkpoint import load_model
from harness.server.engine import Engine
from harness.server.options import WEIGHTS_FOLDER, ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.sequence import Mode, SamplingParams, Segment, Sequence

FEATURE_SETS = {
    "paged_kv": ("paged_kv",),
    "paged_kv,adaptive_batching": ("paged_kv", "adaptive_batching"),
    "paged_kv,prefix_cache": ("paged_kv", "prefix_cache"),
    "all three": ("adaptive_batching", "prefix_cache", "paged_kv"),
}
GREEDY = SamplingParams(temperature=0.0, ignore_eos=True)
Prompts = Callable[[np.random.Generator], Iterator[tuple[list[int], int]]]


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Endless (prompt, output length), and the server it meets."""

    prompts: Prompts
    n_requests: int
    options: ServerOptions


def _random_tokens(random: np.random.Generator, n_tokens: int) -> list[int]:
    return [int(token) for token in random.integers(300, 4000, n_tokens)]


def quickstart(random: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    """Prompts of scenarios/quickstart.toml in turn, no two alike."""
    while True:
        n_prompt = int(random.choice((64, 128, 192, 224, 256, 288, 320)))
        yield _random_tokens(random, n_prompt), int(random.integers(4, 29))


def shared_prefix(random: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    """A common instruction of 256 tokens before 32 tokens of one's own."""
    shared = _random_tokens(random, 256)
    while True:
        yield shared + _random_tokens(random, 32), int(random.integers(4, 29))


def long_beside_short(random: np.random.Generator) -> Iterator[tuple[list[int], int]]:
    """One prompt in eight has 1500 tokens; the others are short and write long answers."""
    for number in count():
        if number % 8 == 7:
            yield _random_tokens(random, 1500), 4
        else:
            yield _random_tokens(random, 32), int(random.integers(40, 81))


WORKLOADS = {
    "quickstart": Workload(
        prompts=quickstart,
        n_requests=100,
        options=ServerOptions(max_num_batched_tokens=384, threads=1),
    ),
    "shared prefix": Workload(
        prompts=shared_prefix,
        n_requests=100,
        options=ServerOptions(max_num_batched_tokens=384, threads=1),
    ),
    "long prompts beside answers": Workload(
        prompts=long_beside_short,
        n_requests=48,
        options=ServerOptions(max_num_batched_tokens=2048, kv_tokens=8192, threads=1),
    ),
}


class ProcessorWatch(Stopwatch):
    """A stopwatch that runs only while this thread does."""

    def lap(self, phase: str) -> int:
        """Charge the processor time since the last lap."""
        now = time.thread_time_ns()
        self.laps_ns[phase] = self.laps_ns.get(phase, 0) + now - self.last_ns
        self.last_ns = now
        return now


@dataclass(kw_only=True)
class Outcome:
    """Stamps of one run, seconds of processor time."""

    began: dict[int, float] = field(default_factory=dict)
    tokens: dict[int, list[float]] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)

    def figures(self) -> dict[str, float]:
        """What is compared, of whole requests; the first eight began together and are left out."""
        whole = [number for number in self.ended if number >= 8]
        ttft = [self.tokens[number][0] - self.began[number] for number in whole]
        e2e = [self.ended[number] - self.began[number] for number in whole]
        itl = np.concatenate([np.diff(self.tokens[number]) for number in whole])
        n_tokens = sum(len(stamps) for stamps in self.tokens.values())
        return {
            "TTFT median": float(np.median(ttft)),
            "TTFT P95": float(np.quantile(ttft, 0.95)),
            "ITL median": float(np.median(itl)),
            "ITL P99": float(np.quantile(itl, 0.99)),
            "E2E median": float(np.median(e2e)),
            "E2E P95": float(np.quantile(e2e, 0.95)),
            "time per token": max(self.ended.values()) / n_tokens,
        }


def run(engine: Engine, workload: Workload, mode: Mode, seed: int) -> dict[str, float]:
    """Drive one engine through the workload."""
    source = workload.prompts(np.random.default_rng(seed + 1))
    outcome, watch, start = (
        Outcome(),
        ProcessorWatch(GcPauses(), time.thread_time_ns()),
        time.thread_time(),
    )
    numbers = iter(range(workload.n_requests))

    def add() -> None:
        number = next(numbers, None)
        if number is None:
            return
        tokens, n_output = next(source)
        outcome.began[number] = time.thread_time() - start
        engine.add(
            Sequence(
                id=number,
                order=number,
                mode=mode,
                tokens=tokens,
                segments=(Segment(kind="content", n_tokens=n_output),),
                params=GREEDY,
                charged_until_ns=watch.last_ns,
            )
        )

    for _ in range(workload.options.max_num_seqs):
        add()
    while engine.has_work:
        events = engine.step(watch)
        watch.restart(events.until_ns)
        now = time.thread_time() - start
        for token in events.tokens:
            outcome.tokens.setdefault(token.id, []).append(now)
        for end in events.ends:
            outcome.ended[end.id] = now
            add()
    return outcome.figures()


def measure(workload: Workload, n_repeats: int) -> dict[str, list[dict[str, float]]]:
    """Run every feature set `n_repeats` times, in turn; each repeat has prompts of its own."""
    model = load_model(WEIGHTS_FOLDER / "tiny")
    results: dict[str, list[dict[str, float]]] = {name: [] for name in FEATURE_SETS}
    for repeat in range(-1, n_repeats):
        names = list(FEATURE_SETS)
        for name in reversed(names) if repeat % 2 else names:
            engine = Engine(
                model, workload.options, max_model_len=2048, control_ids=[], stop_ids=[]
            )
            figures = run(engine, workload, mode_of(FEATURE_SETS[name]), seed=repeat)
            if repeat >= 0:  # the first round warms up
                results[name].append(figures)
    return results


def show(results: dict[str, list[dict[str, float]]]) -> None:
    """Print figures and ratios."""
    base = results["paged_kv"]
    for name, repeats in results.items():
        print(f"  {name}")
        for figure in repeats[0]:
            values = [each[figure] for each in repeats]
            ratios = [
                each[figure] / other[figure] for each, other in zip(repeats, base, strict=True)
            ]
            low, high = min(ratios), max(ratios)
            print(
                f"    {figure:15s} {statistics.median(values) * 1e3:8.2f} ms"
                f"   ratio {statistics.median(ratios):.2f} [{low:.2f}, {high:.2f}]"
            )


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    n_repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    for name, workload in WORKLOADS.items():
        print(f"{name}: {workload.n_requests} requests, {n_repeats} repeats")
        show(measure(workload, n_repeats))


if __name__ == "__main__":
    main()
