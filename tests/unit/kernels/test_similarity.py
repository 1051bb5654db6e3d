import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernels.backend import BACKENDS, Backend, has_native, record_calls
from kernels.similarity import merge_similar, reference_merge

RUNNABLE = [each for each in BACKENDS if each == "torch" or has_native()]
both = pytest.mark.parametrize("backend", RUNNABLE)


def clustered(seed: int, n_batch: int, n_beams: int, width: int) -> torch.Tensor:
    """Embeddings around few centres, so that some are close and some are not."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n_batch, 3, width))
    chosen = centres[np.arange(n_batch)[:, None], random.integers(0, 3, (n_batch, n_beams))]
    noise = random.normal(size=(n_batch, n_beams, width)) * random.choice(
        [0.05, 0.5], (n_batch, n_beams, 1)
    )
    return torch.from_numpy((chosen + noise).astype(np.float32))


@both
@pytest.mark.parametrize("width", [1, 7, 16, 64, 193])
@pytest.mark.parametrize("seed", range(4))
def test_every_beam_goes_where_the_reference_says(backend: Backend, width: int, seed: int) -> None:
    """Merged beams and those that stand for them equal the pairwise float64 walk."""
    embeddings = clustered(seed, 5, 12, width)
    scores = torch.from_numpy(np.random.default_rng(seed).integers(-3, 3, (5, 12)) * 1.0).float()
    with record_calls() as calls:
        found = merge_similar(embeddings, scores, 0.85, backend=backend)
    assert calls == [("similarity", backend)]
    for row in range(5):
        expected = reference_merge(
            embeddings[row].double().numpy(), scores[row].double().numpy(), 0.85
        )
        assert found.into[row].tolist() == expected
        assert found.is_merged[row].tolist() == [into != beam for beam, into in enumerate(expected)]
    assert found.is_merged.any()
    assert not found.is_merged.all()


@both
def test_the_likelier_survives_and_of_equals_the_first(backend: Backend) -> None:
    """Two that are alike: the higher score stays; with equal scores the lower index does."""
    twins = torch.ones((1, 2, 4))
    assert merge_similar(
        twins, torch.tensor([[0.0, 1.0]]), 0.85, backend=backend
    ).into.tolist() == [[1, 1]]
    assert merge_similar(twins, torch.zeros(1, 2), 0.85, backend=backend).into.tolist() == [[0, 0]]


@both
def test_the_threshold_itself_does_not_merge(backend: Backend) -> None:
    """Cosine must be above the threshold: exactly 0 at threshold 0 stays, opposite ones as well."""
    embeddings = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]])
    found = merge_similar(embeddings, torch.zeros(1, 3), 0.0, backend=backend)
    assert not found.is_merged.any()


@both
def test_what_is_no_direction_is_close_to_nothing(backend: Backend) -> None:
    """Zeros, NaN and infinity are neither merged nor merged into, at any threshold."""
    odd = torch.tensor([[[0.0, 0.0], [torch.nan, 1.0], [torch.inf, 1.0], [1.0, 1.0], [1.0, 1.0]]])
    found = merge_similar(odd, torch.tensor([[9.0, 8.0, 7.0, 1.0, 2.0]]), -1.0, backend=backend)
    assert found.into.tolist() == [[0, 1, 2, 4, 4]]


@both
def test_a_score_of_nan_is_the_least(backend: Backend) -> None:
    """A beam whose score is lost never stands for one that has a score."""
    twins = torch.ones((1, 2, 4))
    assert merge_similar(
        twins, torch.tensor([[torch.nan, -5.0]]), 0.5, backend=backend
    ).into.tolist() == [[1, 1]]


@both
@given(st.integers(0, 2**32 - 1), st.integers(1, 9))
def test_scale_and_batch_do_not_matter(backend: Backend, seed: int, n_beams: int) -> None:
    """Multiplying a vector by a power of two, or batching it with others, changes nothing."""
    embeddings = clustered(seed, 2, n_beams, 8)
    scores = torch.from_numpy(np.random.default_rng(seed).normal(size=(2, n_beams))).float()
    alone = merge_similar(embeddings[:1], scores[:1], 0.85, backend=backend)
    scaled = embeddings * 2.0 ** torch.arange(n_beams)[:, None]
    together = merge_similar(scaled, scores, 0.85, backend=backend)
    assert together.into[:1].tolist() == alone.into.tolist()


@both
def test_bad_input_is_named(backend: Backend) -> None:
    """Shapes, types and thresholds that make no sense are told with what is allowed."""
    with pytest.raises(ValueError, match=r"n_beams at least 1"):
        merge_similar(torch.zeros(2, 0, 4), torch.zeros(2, 0), 0.85, backend=backend)
    with pytest.raises(ValueError, match=r"got embeddings \(2, 3, 4\) and scores \(3, 2\)"):
        merge_similar(torch.zeros(2, 3, 4), torch.zeros(3, 2), 0.85, backend=backend)
    with pytest.raises(ValueError, match=r"got threshold 1\.5, allowed -1 to 1"):
        merge_similar(torch.zeros(2, 3, 4), torch.zeros(2, 3), 1.5, backend=backend)
    with pytest.raises(TypeError, match=r"got torch\.float64"):
        merge_similar(torch.zeros(2, 3, 4).double(), torch.zeros(2, 3), 0.5, backend=backend)
