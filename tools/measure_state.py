"""What state in few bits costs and brings: bytes, error beside fp16, prefix hits in equal memory.

    python -m tools.measure_state

On N(0, 1), on the embedded model's own keys and values, and with the engine: 160 requests for 32
prompts, the n-th of which is asked for 1/n as often as the first, go through the same KV bytes,
kept as float32 (`paged_kv`) and as packed records (`packed_state`). The last table counts
collisions of the history index beside what its bits predict. Everything is seeded; no clock is
read.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from harness.base.rng import generator
from harness.server.accel import mode_of
from harness.server.checkpoint import load_model
from harness.server.engine import Engine
from harness.server.kv_arena import KvArena
from harness.server.model_runner import ModelRunner
from harness.server.options import WEIGHTS_FOLDER, ServerOptions
from harness.server.phases import GcPauses, Stopwatch
from harness.server.scheduler import Chunk
from harness.server.sequence import SamplingParams, Segment, Sequence
from harness.server.tokenizer import TextTokenizer
from kernels.history_index import START, extend_hashes, pack_index, unpack_index
from kernels.kv_record import record_size
from kernels.state_codec import pack_fp8, pack_int4, unpack_fp8, unpack_int4

KV_TOKENS = 1024
N_PROMPTS, PROMPT_TOKENS, N_REQUESTS = 32, 193, 160


class Format(NamedTuple):
    """A way to keep numbers."""

    name: str
    bits: Callable[[int], float]
    keep: Callable[[Tensor], Tensor]


FORMATS = (
    Format("fp16", lambda _: 16.0, lambda values: values.half().float()),
    Format("fp8 by head", lambda n: 8 + 32 / n, lambda x: unpack_fp8(pack_fp8(x, x.shape[-1]))),
    Format("int4 g32", lambda _: 4 + 32 / 32, lambda x: unpack_int4(pack_int4(x), x.shape[-1])),
)


def rmse(one: Tensor, other: Tensor) -> float:
    """Root of the mean square."""
    return float((one - other).double().square().mean().sqrt())


def run_engine(features: tuple[str, ...], prompts: list[list[int]]) -> Engine:
    """Run the prompts one after another through one engine."""
    model = load_model(WEIGHTS_FOLDER / "tiny")
    options = ServerOptions(kv_tokens=KV_TOKENS)
    engine = Engine(model, options, max_model_len=2048, control_ids=[], stop_ids=[])
    watch = Stopwatch(GcPauses())
    for number, prompt in enumerate(prompts):
        engine.add(build_sequence(number, features, prompt))
        while engine.has_work:
            engine.step(watch)
            watch.restart(watch.last_ns)
    return engine


def keys_and_values() -> list[Tensor]:
    """What the model keeps of a text of 800 tokens.

    Shapes: each (n_heads, head_dim).
    """
    model = load_model(WEIGHTS_FOLDER / "tiny")
    text = "The mother told the child that the old house by the river was not for sale. "
    tokens = TextTokenizer.load(WEIGHTS_FOLDER / "tiny").encode(text * 50)[:800]
    arena = KvArena(model.config, len(tokens), like=model.head_weight())
    sequence = build_sequence(0, ("paged_kv",), tokens)
    sequence.slots = np.arange(len(tokens))
    with torch.inference_mode():
        ModelRunner(model, arena, 2048).run([Chunk(sequence, 800)], Stopwatch(GcPauses()))
    return [part.reshape(-1, model.config.head_dim) for part in arena.layers.unbind(2)]


def build_sequence(number: int, features: tuple[str, ...], tokens: list[int]) -> Sequence:
    """A prompt, and four tokens to write."""
    return Sequence(
        id=number,
        order=number,
        mode=mode_of(features),
        tokens=list(tokens),
        segments=(Segment(kind="content", n_tokens=4),),
        params=SamplingParams(temperature=0.0, ignore_eos=True),
        charged_until_ns=0,
    )


def random_prompts() -> list[list[int]]:
    """Prompts that have nothing in common."""
    rng = generator(0, "prompts")
    drawn = rng.integers(300, 4000, (N_PROMPTS, PROMPT_TOKENS))
    return [[int(token) for token in prompt] for prompt in drawn]


def error_rows() -> Iterator[str]:
    """RMSE of every format on three kinds of numbers."""
    normal = torch.from_numpy(generator(0, "normal").normal(size=(8192, 32))).float()
    keys, values = keys_and_values()
    yield f"{'':12} {'bits':>6} {'N(0, 1)':>9} {'keys':>9} {'values':>9}"
    yield f"{'their RMS':12} {'':6} " + " ".join(
        f"{rmse(each, torch.zeros_like(each)):9.4f}" for each in (normal, keys, values)
    )
    for kind in FORMATS:
        errors = [rmse(kind.keep(each), each) for each in (normal, keys, values)]
        yield f"{kind.name:12} {kind.bits(32):6.2f} " + " ".join(f"{each:9.5f}" for each in errors)


def record_rows() -> Iterator[str]:
    """Bytes of one token and head: key and value."""
    yield f"{'head_dim':>8} {'float32':>8} {'fp16':>6} {'packed':>7} {'of fp16':>8} {'tokens':>7}"
    for head_dim in (32, 64, 80, 128):
        size = record_size(head_dim)
        yield (
            f"{head_dim:8} {8 * head_dim:8} {4 * head_dim:6} {size:7} "
            f"{size / (4 * head_dim):8.1%} {8 * head_dim / size:6.2f}x"
        )


def hit_rows() -> Iterator[str]:
    """Prompt tokens that the prefix cache served, of those that had come before."""
    rank = np.arange(1, N_PROMPTS + 1)
    asked = generator(0, "asked").choice(N_PROMPTS, N_REQUESTS, p=1 / rank / (1 / rank).sum())
    prompts = random_prompts()
    requests = [prompts[number] for number in asked]
    possible = (N_REQUESTS - len(set(asked.tolist()))) * (PROMPT_TOKENS - 1)
    for features in (("prefix_cache", "paged_kv"), ("prefix_cache", "packed_state")):
        n_hits = run_engine(features, requests).scheduler.n_cache_hits
        yield f"{','.join(features):26} {n_hits:6} of {possible} tokens, {n_hits / possible:.1%}"


def collision_rows() -> Iterator[str]:
    """Pairs of equal hashes among 200,000 trajectories, by how many bits are kept."""
    n = 200_000
    words = torch.from_numpy(generator(0, "ways").integers(0, 1 << 40, (n, 4)))
    hashes = torch.full((n,), START, dtype=torch.int64)
    for word in words.unbind(1):
        hashes = extend_hashes(hashes, word)
    _, kept = unpack_index(pack_index(torch.zeros_like(hashes), hashes))
    yield f"{'bits':>4} {'pairs':>14} {'expected':>14}"
    for n_bits in (4, 16, 24, 40):
        counts = np.unique((kept >> (40 - n_bits)).numpy(), return_counts=True)[1]
        pairs = int((counts * (counts - 1)).sum()) // 2
        yield f"{n_bits:4} {pairs:14,} {n * (n - 1) / 2 / 2**n_bits:14,.4g}"


def main() -> None:
    """Print the four tables."""
    torch.set_num_threads(1)
    for title, rows in (
        ("RMSE of what is kept", error_rows),
        ("Bytes of a head's key and value, and tokens in the bytes of float32", record_rows),
        (f"Prefix hits, {N_REQUESTS} requests, --kv-tokens {KV_TOKENS}", hit_rows),
        ("Collisions of the history index", collision_rows),
    ):
        print(title, *rows(), "", sep="\n")


if __name__ == "__main__":
    main()
