from typing import NamedTuple

import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels import cpu
from kernels import paged_attention as op
from kernels.backend import Backend, has_native, record_calls
from kernels.kv_record import read_kv, record_size, write_kv
from kernels.paged_attention import ContextTable, paged_attention, reference_paged_attention
from tests.kernel_builds import can_run, each_build, use

FORMATS = ("float32", "bfloat16", "packed")


@pytest.fixture(params=each_build.args[1])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return use(request.param, monkeypatch)


class Case(NamedTuple):
    """What an op is asked, and what it must answer to."""

    queries: torch.Tensor
    kv: torch.Tensor
    table: ContextTable
    keys: torch.Tensor
    values: torch.Tensor
    contexts: list[list[int]]

    def expected(self) -> np.ndarray:
        """The reference's answer."""
        queries, keys, values = (
            each.double().numpy() for each in (self.queries, self.keys, self.values)
        )
        return reference_paged_attention(queries, keys, values, self.contexts)


def build(
    lengths: list[int],
    *,
    heads: tuple[int, int] = (6, 2),
    head_dim: int = 32,
    kind: str = "float32",
    block_size: int = 16,
    spread: float = 1.0,
) -> Case:
    """Contexts of these lengths in shuffled blocks of an arena full of other numbers."""
    rng = generator(sum(lengths) + head_dim, "attention")
    n_blocks = [-(-length // block_size) for length in lengths]
    n_slots = (sum(n_blocks) + 3) * block_size
    first = rng.permutation(sum(n_blocks) + 3)[: sum(n_blocks)] * block_size
    queries = torch.from_numpy(rng.normal(0, spread, (len(lengths), heads[0], head_dim))).float()
    kv = torch.from_numpy(rng.normal(size=(n_slots, 2, heads[1], head_dim))).float()
    kv = kv.bfloat16() if kind == "bfloat16" else kv
    keys, values = kv.float().unbind(1)
    if kind == "packed":
        everywhere = torch.arange(n_slots)
        kv = torch.zeros((n_slots, heads[1], record_size(head_dim)), dtype=torch.uint8)
        write_kv(kv, everywhere, keys, values, backend="torch")
        keys, values = read_kv(kv, everywhere, head_dim, backend="torch")
    contexts, begin = [], 0
    for length, count in zip(lengths, n_blocks, strict=True):
        blocks = first[begin : begin + count]
        contexts.append([int(blocks[t // block_size]) + t % block_size for t in range(length)])
        begin += count
    table = ContextTable(torch.from_numpy(first.copy()), torch.tensor(lengths), block_size)
    return Case(queries, kv, table, keys, values, contexts)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("head_dim", [32, 64, 80, 128])
@pytest.mark.parametrize("heads", [(6, 2), (4, 4), (9, 1)])
def test_ragged_contexts_agree_with_the_reference(
    backend: Backend, kind: str, head_dim: int, heads: tuple[int, int]
) -> None:
    """Lengths around every edge of blocks and tiles, each head size and grouping, each format."""
    case = build([1, 15, 16, 17, 200, 33], heads=heads, head_dim=head_dim, kind=kind)
    with record_calls() as calls:
        actual = paged_attention(case.queries, case.kv, case.table, backend=backend)
    assert ("paged_attention", backend) in calls
    np.testing.assert_allclose(actual.numpy(), case.expected(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", FORMATS)
def test_long_contexts_and_sharp_scores(backend: Backend, kind: str) -> None:
    """4000 tokens, and scores so far apart that the running maximum rescales to nothing."""
    case = build([4000, 3], kind=kind, spread=40.0)
    actual = paged_attention(case.queries, case.kv, case.table, backend=backend)
    np.testing.assert_allclose(actual.numpy(), case.expected(), rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("block_size", [1, 5, 64])
def test_blocks_of_any_size(backend: Backend, block_size: int) -> None:
    """Tables of single slots, and of blocks that no tile divides, give the same attention."""
    case = build([7, 40, 100], block_size=block_size)
    actual = paged_attention(case.queries, case.kv, case.table, backend=backend)
    np.testing.assert_allclose(actual.numpy(), case.expected(), rtol=2e-5, atol=2e-6)


def test_the_arena_may_end_inside_the_last_block(backend: Backend) -> None:
    """Only slots that hold tokens must exist."""
    case = build([20], block_size=16)
    kv = torch.cat((case.kv[case.contexts[0]], case.kv[:0]))
    table = ContextTable(torch.tensor([0, 16]), torch.tensor([20]), 16)
    actual = paged_attention(case.queries, kv, table, backend=backend)
    np.testing.assert_allclose(actual.numpy(), case.expected(), rtol=2e-5, atol=2e-6)


@pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
def test_every_build_gives_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums have one order: the widths of registers change no bit."""
    case = build([1, 100, 257])
    results = []
    for name in filter(can_run, cpu.ISAS):
        asked = use(name, monkeypatch)
        results.append(paged_attention(case.queries, case.kv, case.table, backend=asked))
    assert all(torch.equal(results[0], each) for each in results)


@pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
def test_threads_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that is worth sharing gives the same result on one thread and on three."""
    case = build([900, 1, 700, 800, 333], head_dim=64, kind="packed")
    results = []
    for n_threads in (1, 3, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda n=n_threads: n)
        results.append(paged_attention(case.queries, case.kv, case.table, backend="cpu"))
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_a_sequence_does_not_depend_on_its_batch(backend: Backend) -> None:
    """Alone and among others the result is the same; to the bit where it is native."""
    case = build([50, 3, 300])
    together = paged_attention(case.queries, case.kv, case.table, backend=backend)
    alone = paged_attention(
        case.queries[:1],
        case.kv,
        ContextTable(case.table.first_slots[:4], case.table.lengths[:1], 16),
        backend=backend,
    )
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-6)
    assert backend == "torch" or torch.equal(together[:1], alone)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        (([0, 1 << 40], [20]), "allowed"),
        (([0, -16], [20]), "allowed"),
        (([0, 16], [40]), "blocks"),
        (([0, 16], [10]), "blocks"),
        (([0, 16], [0]), "length"),
        (([0, 16], [20, 1]), "blocks|length"),
    ],
)
def test_what_lies_outside_is_never_read(
    backend: Backend, table: tuple[list[int], list[int]], problem: str
) -> None:
    """A slot outside the arena, or a table that does not fit its lengths, is a clear error."""
    case = build([20])
    with pytest.raises(ValueError, match=f"paged_attention: got .*({problem})"):
        paged_attention(
            case.queries,
            case.kv,
            ContextTable(torch.tensor(table[0]), torch.tensor(table[1]), 16),
            backend=backend,
        )


def test_bad_shapes_are_refused(backend: Backend) -> None:
    """Keys of another head size, another type, or heads that form no groups are named."""
    case = build([20])
    for queries, kv in (
        (case.queries[..., :16], case.kv),
        (case.queries, case.kv.double()),
        (case.queries[:, :5], case.kv),
        (case.queries, case.kv.transpose(1, 2)),
        (case.queries, torch.zeros((64, 2, 55), dtype=torch.uint8)),
    ):
        with pytest.raises(ValueError, match="paged_attention: got keys and values"):
            paged_attention(queries, kv, case.table, backend=backend)


def test_a_head_size_that_native_does_not_take_goes_to_torch() -> None:
    """24 elements fill no vector: without a wish torch runs, and is told."""
    assert not op.is_native_size(24)
    case = build([20], head_dim=24)
    with record_calls() as calls:
        actual = paged_attention(case.queries, case.kv, case.table)
    assert calls == [("paged_attention", "torch")]
    np.testing.assert_allclose(actual.numpy(), case.expected(), rtol=2e-5, atol=2e-6)


def test_records_are_written_and_read_where_they_belong(backend: Backend) -> None:
    """What is written to a slot is read from it, and other slots keep their bytes."""
    case = build([20], head_dim=80)
    records = torch.full((40, 2, record_size(80)), 7, dtype=torch.uint8)
    slots = torch.tensor([3, 39, 0, 8])
    keys, values = case.keys[:4].clone(), case.values[:4].clone()
    with record_calls() as calls:
        write_kv(records, slots, keys, values, backend=backend)
        got_keys, got_values = read_kv(records, slots, 80, backend=backend)
    assert {("write_kv", backend), ("read_kv", backend)} <= set(calls)
    assert float((got_keys - keys).abs().max()) < 0.15
    assert float((got_values - values).abs().max()) < 0.35
    others = torch.tensor([slot for slot in range(40) if slot not in slots.tolist()])
    assert (records[others] == 7).all()
    again = torch.full_like(records, 7)
    write_kv(again, slots, keys, values, backend="torch")
    assert torch.equal(records, again)


def test_a_slot_that_is_not_there_is_refused(backend: Backend) -> None:
    """Records are neither written nor read beyond the arena, and must be of the right size."""
    records = torch.zeros((4, 2, record_size(32)), dtype=torch.uint8)
    data = torch.zeros((1, 2, 32))
    for slot in (4, -1):
        with pytest.raises(ValueError, match=f"write_kv: got slot {slot}, allowed 0 to 3"):
            write_kv(records, torch.tensor([slot]), data, data, backend=backend)
        with pytest.raises(ValueError, match=f"read_kv: got slot {slot}, allowed 0 to 3"):
            read_kv(records, torch.tensor([slot]), 32, backend=backend)
    with pytest.raises(ValueError, match=r"n_kv_heads, 108\) torch.uint8"):
        read_kv(records, torch.tensor([0]), 64, backend=backend)
