import numpy as np
import torch

from harness.server.phases import GcPauses, Stopwatch
from harness.server.sampler import Sampler, penalties_of
from harness.server.sequence import SamplingParams
from kernels.penalties import reference_penalties
from kernels.sampling import reference_noise, reference_probabilities
from tests.unit.server import build

VOCAB = 64
PARAMS = [
    SamplingParams(temperature=0.0, repetition=1.3, ignore_eos=True),
    SamplingParams(temperature=1.0, seed=11),
    SamplingParams(temperature=0.7, top_p=0.8, frequency=0.5, presence=0.3, seed=5),
    SamplingParams(temperature=1.3, top_k=9, min_p=0.02, repetition=1.2, seed=2),
]


def test_what_is_weighed_is_what_is_drawn() -> None:
    """Weights give the reference's distribution, and its race gives the tokens; logits stay."""
    sampler = Sampler(VOCAB, control_ids=[0], stop_ids=[1])
    sequences = [
        build.sequence(number, [5, 6, 7], 9, params=params) for number, params in enumerate(PARAMS)
    ]
    for each in sequences:
        each.penalty_state = sampler._state_of(each, "torch")
        each.append_generated(8)
        each.append_generated(8)
    logits = torch.randn((len(PARAMS), VOCAB), generator=torch.Generator().manual_seed(4)) * 3
    kept = logits.clone()
    weights = sampler.weigh(logits, sequences)
    assert torch.equal(logits, kept)
    chosen = sampler.choose(logits, sequences, Stopwatch(GcPauses()))
    for row, (params, token) in enumerate(zip(PARAMS, chosen, strict=True)):
        expected = own_probabilities(kept[row].double().numpy(), params)
        if params.temperature == 0:
            assert int(weights[row].argmax()) == token.token_id == expected.argmax()
            continue
        actual = torch.softmax(weights[row].double(), dim=-1).numpy()
        np.testing.assert_allclose(actual, expected, rtol=2e-5)
        race = expected / reference_noise(params.seed, 5, VOCAB)
        assert token.token_id == race.argmax()


def own_probabilities(logits: np.ndarray, params: SamplingParams) -> np.ndarray:
    """The distribution of a row by the float64 references alone."""
    logits = logits.copy()
    logits[[0, 1] if params.ignore_eos else [0]] = -np.inf
    penalised = reference_penalties(
        logits[None],
        prompt_ids=[[5, 6, 7]],
        output_ids=[[8, 8]],
        penalties=[penalties_of(params)],
    )[0]
    return reference_probabilities(
        penalised,
        temperature=params.temperature,
        top_k=params.top_k,
        min_p=params.min_p,
        top_p=params.top_p,
    )
