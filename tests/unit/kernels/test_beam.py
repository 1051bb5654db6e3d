import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.backend import BACKENDS, Backend, has_native, record_calls
from kernels.beam import reference_step, reorder_tables, step_beams

RUNNABLE = [each for each in BACKENDS if each == "torch" or has_native()]
both = pytest.mark.parametrize("backend", RUNNABLE)


@both
@pytest.mark.parametrize("vocab_size", [1, 7, 64, 1000, 4099])
@pytest.mark.parametrize(("n_beams", "width"), [(1, 1), (4, 4), (3, 7), (8, 5)])
@pytest.mark.parametrize("grid", [None, 0.5])
def test_the_best_are_those_of_the_naive_loop(
    backend: Backend, vocab_size: int, n_beams: int, width: int, grid: float | None
) -> None:
    """Parents, tokens, order and totals equal sorting everything, ties by the thousand included."""
    random = np.random.default_rng(vocab_size * 100 + n_beams)
    drawn = random.normal(size=(3, n_beams, vocab_size + 1))
    drawn = np.round(drawn / grid) * grid if grid else drawn
    scores, logprobs = drawn[..., 0].astype(np.float32), drawn[..., 1:].astype(np.float32)
    width = min(width, n_beams * vocab_size)
    with record_calls() as calls:
        found = step_beams(
            torch.from_numpy(scores), torch.from_numpy(logprobs), width, backend=backend
        )
    assert calls == [("beam", backend)]
    for row in range(3):
        expected = reference_step(scores[row], logprobs[row], width)
        actual = zip(found.parents[row], found.token_ids[row], found.scores[row], strict=True)
        assert [(int(a), int(b), float(c)) for a, b, c in actual] == expected


@both
def test_nan_and_infinities_have_their_place(backend: Backend) -> None:
    """NaN counts as -inf and comes last, by index; +inf comes first; nothing is invented."""
    logprobs = torch.tensor([[[torch.nan, 0.0, -torch.inf, torch.inf]]])
    found = step_beams(torch.zeros(1, 1), logprobs, 4, backend=backend)
    assert found.token_ids.tolist() == [[3, 1, 0, 2]]
    assert found.scores.tolist() == [[torch.inf, 0.0, -torch.inf, -torch.inf]]


@both
def test_a_batch_entry_does_not_depend_on_its_neighbours(backend: Backend) -> None:
    """The same beams alone and beside larger ones give the same answer."""
    random = np.random.default_rng(5)
    scores = torch.from_numpy(random.normal(size=(4, 3))).float()
    logprobs = torch.from_numpy(random.normal(size=(4, 3, 200))).float()
    logprobs[1:] += 100
    alone = step_beams(scores[:1], logprobs[:1], 6, backend=backend)
    together = step_beams(scores, logprobs, 6, backend=backend)
    assert together.parents[:1].tolist() == alone.parents.tolist()
    assert together.token_ids[:1].tolist() == alone.token_ids.tolist()


@both
def test_bad_steps_are_named(backend: Backend) -> None:
    """Shapes, widths and types that make no sense are told with what is allowed."""
    with pytest.raises(ValueError, match=r"got width 9, allowed 1 to 8 \(n_beams x vocab_size\)"):
        step_beams(torch.zeros(1, 2), torch.zeros(1, 2, 4), 9, backend=backend)
    with pytest.raises(ValueError, match=r"got scores \(2, 1\) and logprobs \(1, 2, 4\)"):
        step_beams(torch.zeros(2, 1), torch.zeros(1, 2, 4), 2, backend=backend)
    with pytest.raises(TypeError, match="float64"):
        step_beams(torch.zeros(1, 2).double(), torch.zeros(1, 2, 4), 2, backend=backend)


def tables_of(n_beams: int, n_blocks: int) -> tuple[np.ndarray, np.ndarray]:
    """Tables with a block each of their own, one column to spare, and the references."""
    tables = np.full((n_beams, n_blocks + 1), -1, dtype=np.int64)
    tables[:, :n_blocks] = np.arange(n_beams * n_blocks).reshape(n_beams, n_blocks)
    references = np.zeros(n_beams * n_blocks + 2, dtype=np.int64)
    references[: n_beams * n_blocks] = 1
    return tables, references


def test_a_reordering_moves_numbers_and_no_block() -> None:
    """Two beams on one parent share its blocks; those of the beam that lost are free."""
    tables, references = tables_of(3, 2)
    found = reorder_tables(tables, references, np.array([2, 0, 2]), n_tokens=32, block_size=16)
    assert found.tables.tolist() == [[4, 5, -1], [0, 1, -1], [4, 5, -1]]
    assert found.references.tolist() == [1, 1, 0, 0, 2, 2, 0, 0]
    assert found.freed.tolist() == [2, 3]
    assert not found.must_copy.any()


def test_only_an_unfinished_block_that_is_shared_is_copied() -> None:
    """With 17 of 32 slots filled, all holders of a last block but the first must copy it."""
    tables, references = tables_of(3, 2)
    found = reorder_tables(tables, references, np.array([2, 0, 2]), n_tokens=17, block_size=16)
    assert found.must_copy.tolist() == [False, False, True]


@given(st.data())
def test_references_always_count_the_tables(data: st.DataObject) -> None:
    """After any reorderings every block has as many references as tables hold it."""
    n_beams, n_blocks = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 4))
    tables, references = tables_of(n_beams, n_blocks)
    references[-1] = 3  # somebody else's
    for _ in range(3):
        parents = np.array(
            data.draw(st.lists(st.integers(0, n_beams - 1), min_size=n_beams, max_size=n_beams))
        )
        found = reorder_tables(tables, references, parents, n_tokens=n_blocks * 4, block_size=4)
        held = np.bincount(found.tables[:, :n_blocks].ravel(), minlength=len(references))
        held[-1] += 3
        assert found.references.tolist() == held.tolist()
        assert set(found.freed) == {b for b in tables[:, :n_blocks].ravel() if held[b] == 0}
        tables, references = found.tables, found.references


def test_tables_that_do_not_add_up_are_refused() -> None:
    """A parent that is none, a short table and a wrong count are named before anything changes."""
    tables, references = tables_of(2, 2)
    with pytest.raises(ValueError, match="got parents 0 to 2, allowed 0 to 1"):
        reorder_tables(tables, references, np.array([0, 2]), n_tokens=32, block_size=16)
    with pytest.raises(ValueError, match="do not hold exactly 3 blocks"):
        reorder_tables(tables, references, np.array([0, 1]), n_tokens=33, block_size=16)
    references[1] = 0
    with pytest.raises(ValueError, match="block 1 is held more often"):
        reorder_tables(tables, references, np.array([0, 1]), n_tokens=32, block_size=16)
