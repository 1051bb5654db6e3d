import importlib

import numpy as np
import pytest
import torch

from harness.base.rng import generator
from kernels import cpu
from kernels.backend import Backend, has_native, record_calls
from kernels.logit_bias import add_bias, build_logit_bias, reference_bias

VOCAB = 61
RUN: tuple[Backend, ...] = ("torch", "cpu") if has_native() else ("torch",)
ISAS = cpu.ISAS[: cpu.ISAS.index(cpu.native.best_isa()) + 1] if has_native() else ()
VALUES = [{0: 1.5, 60: -np.inf}, None, {7: -0.25}, {}, {1: 100.0, 2: -100.0, 3: -np.inf}]

every_backend = pytest.mark.parametrize("backend", RUN)


def random_rows() -> np.ndarray:
    """Five rows of logits, one of them already banned."""
    logits = generator(1, "bias").normal(0, 5, (5, VOCAB)).astype(np.float32)
    logits[4, 1] = -np.inf
    return logits


@every_backend
def test_a_backend_gives_the_reference(backend: Backend) -> None:
    """Biased rows get the float32 sums exactly; what was banned stays; other rows keep theirs."""
    logits = random_rows()
    expected = reference_bias(logits, VALUES)
    subject = torch.from_numpy(logits)
    biases = [
        None if each is None else build_logit_bias(each, vocab_size=VOCAB, backend=backend)
        for each in VALUES
    ]
    with record_calls() as calls:
        assert add_bias(subject, biases, backend=backend) is subject
    assert calls == [("logit_bias", backend)]
    assert np.array_equal(logits, expected)
    assert logits[0, 60] == logits[4, 1] == logits[4, 3] == -np.inf


@every_backend
def test_one_bias_serves_every_row_of_a_padded_vocabulary(backend: Backend) -> None:
    """A shared bias reaches each row where it lies, and nothing between the rows."""
    wide = torch.zeros((4, VOCAB + 3))
    bias = build_logit_bias({0: 1.0, VOCAB - 1: 2.0}, vocab_size=VOCAB, backend=backend)
    add_bias(wide[:, :VOCAB], [bias] * 4, backend=backend)
    expected = np.zeros((4, VOCAB + 3))
    expected[:, [0, VOCAB - 1]] = [1.0, 2.0]
    assert (wide.numpy() == expected).all()


@pytest.mark.parametrize("isa", ISAS)
def test_every_build_gives_the_reference(isa: str) -> None:
    """The portable, AVX2 and AVX-512 builds add alike."""
    native = importlib.import_module(f"kernels.cpu._{isa}")
    logits = random_rows()
    expected = reference_bias(logits, VALUES)
    biases = [
        None
        if each is None
        else native.LogitBias(list(each), list(each.values()), vocab_size=VOCAB)
        for each in VALUES
    ]
    native.add_bias(logits, biases)
    assert np.array_equal(logits, expected)


@every_backend
def test_a_bad_argument_is_refused_with_what_is_allowed(backend: Backend) -> None:
    """Ids outside of the vocabulary, undefined values and wrong shapes never reach the logits."""
    for values, message in [
        ({VOCAB: 0.0}, "bias: got token id 61, allowed 0 to 60"),
        ({-1: 0.0}, "bias: got token id -1, allowed 0 to 60"),
        ({3: np.nan}, "bias of token 3: got nan, allowed a number or -inf"),
        ({3: np.inf}, "bias of token 3: got inf"),
    ]:
        with pytest.raises(ValueError, match=message):
            build_logit_bias(values, vocab_size=VOCAB, backend=backend)
    bias = build_logit_bias({0: 1.0}, vocab_size=VOCAB, backend=backend)
    logits = torch.zeros((1, VOCAB))
    with pytest.raises(ValueError, match="biases: got 2, allowed one"):
        add_bias(logits, [bias, bias], backend=backend)
    with pytest.raises(ValueError, match="biases: got one of vocab_size 61, allowed the logits' 9"):
        add_bias(torch.zeros((1, 9)), [bias], backend=backend)
    with pytest.raises(ValueError, match="allowed float32"):
        add_bias(logits.double(), [bias], backend=backend)
    assert (logits == 0).all()


@pytest.mark.skipif(not has_native(), reason=str(cpu.PROBLEM))
def test_a_bias_of_another_backend_is_refused() -> None:
    """A bias cannot be used by a backend that did not make it."""
    pairs: list[tuple[Backend, Backend]] = [("cpu", "torch"), ("torch", "cpu")]
    for mine, other in pairs:
        bias = build_logit_bias({0: 1.0}, vocab_size=VOCAB, backend=other)
        with pytest.raises(ValueError, match="biases: got one of another backend"):
            add_bias(torch.zeros((1, VOCAB)), [bias], backend=mine)
