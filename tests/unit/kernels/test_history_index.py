import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels.backend import Backend, record_calls
from kernels.history_index import (
    HASH_BITS,
    START,
    STEP_BITS,
    extend_hashes,
    pack_index,
    reference_hash,
    unpack_index,
)
from tests.kernel_builds import each_build, use


@pytest.fixture(params=each_build.args[1])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Backend:
    return use(request.param, monkeypatch)


def hashes_of(histories: np.ndarray, backend: Backend) -> torch.Tensor:
    """Hash rows of words, one step after another."""
    hashes = torch.full((len(histories),), START, dtype=torch.int64)
    for words in torch.from_numpy(histories).unbind(1):
        hashes = extend_hashes(hashes, words, backend=backend)
    return hashes


def test_hashes_are_the_reference_s(backend: Backend) -> None:
    """Whole histories of any 64-bit words have the hash that unbounded integers give."""
    histories = generator(1, "history").integers(-(1 << 63), 1 << 63, (50, 20), dtype=np.int64)
    with record_calls() as calls:
        actual = hashes_of(histories, backend)
    assert calls == [("extend_hashes", backend)] * 20
    assert [value % (1 << 64) for value in actual.tolist()] == [
        reference_hash(row.tolist()) for row in histories
    ]


def test_an_entry_gives_its_step_and_hash_back(backend: Backend) -> None:
    """The first and the last step, and any hash, come back from 8 bytes."""
    steps = torch.tensor([0, 1, (1 << STEP_BITS) - 1, 12345])
    hashes = torch.tensor([-1, 0, 1 << 62, -(1 << 63)])
    with record_calls() as calls:
        index = pack_index(steps, hashes, backend=backend)
    assert calls == [("pack_index", backend)]
    got_steps, got_hashes = unpack_index(index)
    assert torch.equal(got_steps, steps)
    assert got_hashes.tolist() == [value % (1 << 64) >> 24 for value in hashes.tolist()]
    assert int(got_hashes.max()) < 1 << HASH_BITS


def test_order_and_length_count(backend: Backend) -> None:
    """Swapped words, and a history with one word more, have other hashes."""
    one = hashes_of(np.array([[3, 4], [4, 3], [0, 0]]), backend)
    longer = hashes_of(np.array([[3, 4, 0], [0, 0, 0]]), backend)
    assert len({*one.tolist(), *longer.tolist()}) == 5


@pytest.mark.parametrize("n_bits", [4, 12, 20])
def test_collisions_are_as_rare_as_their_bits(backend: Backend, n_bits: int) -> None:
    """Any bits of the 40 collide as chance says: 4 of them once in 16, so 40 once in 2^40."""
    n = 4096
    hashes = hashes_of(np.arange(n * 2).reshape(n, 2), backend)
    _, kept = unpack_index(pack_index(torch.zeros(n, dtype=torch.int64), hashes, backend=backend))
    assert len(set(kept.tolist())) == n
    for shift in range(0, HASH_BITS - n_bits + 1, 4):
        counts = np.unique((kept >> shift & ((1 << n_bits) - 1)).numpy(), return_counts=True)[1]
        n_pairs = float((counts * (counts - 1)).sum()) / 2
        expected = n * (n - 1) / 2 / 2**n_bits
        # The number of pairs has about this variance; five deviations, over 30 tests.
        assert abs(n_pairs - expected) < 5 * np.sqrt(expected) + 1


def test_what_does_not_fit_is_refused(backend: Backend) -> None:
    """A step beyond 24 bits, below 0, or arrays of different length are named."""
    one = torch.zeros(1, dtype=torch.int64)
    for step in (1 << STEP_BITS, -1):
        with pytest.raises(ValueError, match=f"pack_index: got step {step}, allowed 0 to 16777215"):
            pack_index(torch.tensor([step]), one, backend=backend)
    with pytest.raises(ValueError, match=r"extend_hashes: got \(1,\) torch.int64 and \(2,\)"):
        extend_hashes(one, torch.zeros(2, dtype=torch.int64), backend=backend)
