import numpy as np
import pytest
import torch
from scipy import stats

from kernels.bench.peers import Setting, SmartEager, VllmEager
from kernels.bench.workload import make_histories, make_logits
from kernels.penalties import Penalties, reference_penalties
from kernels.sampling import reference_probabilities

VOCAB = 1500
PROMPTS, OUTPUTS = make_histories(2, VOCAB, 40, seed=1), make_histories(2, VOCAB, 30, seed=2)


@pytest.mark.parametrize("peer", [VllmEager, SmartEager])
def test_a_peer_penalises_as_the_reference(peer: type[VllmEager | SmartEager]) -> None:
    """Both peers do the same work as the op they are compared with."""
    setting = Setting()
    logits = make_logits("peaked", 2, VOCAB)
    expected = reference_penalties(
        logits.double().numpy(),
        prompt_ids=PROMPTS,
        output_ids=OUTPUTS,
        penalties=[
            Penalties(
                repetition=setting.repetition,
                frequency=setting.frequency,
                presence=setting.presence,
            )
        ]
        * 2,
    )
    peer(PROMPTS, OUTPUTS, setting).penalise(logits)
    np.testing.assert_allclose(logits.numpy(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("peer", [VllmEager, SmartEager])
@pytest.mark.parametrize("setting", [Setting(top_p=0.9), Setting(top_k=20, top_p=0.8), Setting()])
def test_a_peer_draws_from_the_reference_distribution(
    peer: type[VllmEager | SmartEager], setting: Setting
) -> None:
    """Chi-square of 20,000 draws does not reject at alpha = 1e-4, and none lies outside."""
    torch.manual_seed(7)
    n_draws = 20_000
    logits = make_logits("peaked", 1, VOCAB)
    expected = reference_probabilities(
        logits[0].double().numpy(),
        temperature=setting.temperature,
        top_k=setting.top_k,
        min_p=0.0,
        top_p=setting.top_p,
    )
    subject = peer(PROMPTS[:1], OUTPUTS[:1], setting)
    rows = logits.expand(1000, VOCAB)
    counts = np.zeros(VOCAB)
    for _ in range(n_draws // 1000):
        counts += np.bincount(subject.draw(rows).numpy(), minlength=VOCAB)
    assert counts[expected == 0].sum() == 0
    often = expected * n_draws >= 5
    observed = np.append(counts[often], counts[~often].sum())
    wanted = np.append(expected[often], expected[~often].sum()) * n_draws
    told = wanted > 0
    assert stats.chisquare(observed[told], wanted[told], sum_check=False).pvalue > 1e-4


def test_the_window_says_when_it_is_too_narrow() -> None:
    """A flat row's nucleus does not fit into 1,024 tokens; a peaked one's does."""
    smart = SmartEager(PROMPTS, OUTPUTS, Setting(top_p=0.9))
    assert smart.is_exact(make_logits("peaked", 2, 8000))
    assert not smart.is_exact(make_logits("flat", 2, 8000))


def test_histories_follow_zipf() -> None:
    """The commonest token of a long history has the share that rank 1 has under rank^-1.1."""
    ranks = np.arange(1, 1001) ** -1.1
    (row,) = make_histories(1, 1000, 20_000)
    assert np.bincount(row).max() / 20_000 == pytest.approx(ranks[0] / ranks.sum(), rel=0.05)
