import pytest
import torch

from harness.server.accel import EXACT_FEATURES, LOSSY_FEATURES, mode_of, read_features
from harness.server.fidelity.limits import EXACT, LOSSY, limits_for
from harness.server.sampler import Sampler
from harness.server.sequence import BASELINE, Mode, SamplingParams, Sequence
from kernels.depth_clip import DEFAULT_DEPTH
from tests.unit.server import build

CLIPPED = Mode(is_depth_clipped=True)
FLAT = SamplingParams(temperature=1.5, ignore_eos=True)


def weights(mode: Mode, logits: torch.Tensor, params: SamplingParams = FLAT) -> torch.Tensor:
    """The distribution that one row is drawn from."""
    subject = Sampler(len(logits), control_ids=[], stop_ids=[])
    sequence = build.sequence(0, [1, 2], 1, mode=mode, params=params)
    return subject.weigh(logits[None].clone(), [sequence])[0].double().softmax(-1)


def test_a_depth_clip_takes_what_is_ten_nats_down_and_nothing_else() -> None:
    """After the temperature: what is left keeps its proportions, so TV is the clipped mass."""
    logits = torch.linspace(0, -40, 801)
    exact, clipped = weights(BASELINE, logits), weights(CLIPPED, logits)
    kept = logits / 1.5 >= -DEFAULT_DEPTH
    assert torch.equal(clipped > 0, kept)
    mass = float(exact[~kept].sum())
    assert 0 < mass < 1e-3
    assert float((exact - clipped).abs().sum()) / 2 == pytest.approx(mass, rel=1e-3)
    torch.testing.assert_close(clipped[kept], exact[kept] / (1 - mass))


def test_a_depth_clip_changes_no_greedy_answer() -> None:
    """The likeliest token is always kept."""
    answers = [
        build.run_dry(build.engine(), [build.sequence(0, build.prompt(40), 30, mode=mode)]).tokens[
            0
        ]
        for mode in (BASELINE, CLIPPED)
    ]
    assert answers[0] == answers[1]


def test_a_depth_clip_keeps_the_draw_where_it_would_not_clip() -> None:
    """With the same noise most drawn tokens stay; at a high temperature some were beyond it."""
    params = SamplingParams(temperature=1.0, seed=3, ignore_eos=True)

    def tokens(mode: Mode) -> list[int]:
        sequences = [
            build.sequence(i, build.prompt(30, salt=i), 24, mode=mode, params=params)
            for i in range(6)
        ]
        ran = build.run_dry(build.engine(), sequences).tokens
        return [token for number in range(6) for token in ran[number]]

    exact, clipped = tokens(BASELINE), tokens(CLIPPED)
    same = sum(one == other for one, other in zip(exact, clipped, strict=True))
    assert same > 0.5 * len(exact)


@pytest.mark.parametrize(
    "header", [*LOSSY_FEATURES, "true", *(f"true,{name}" for name in LOSSY_FEATURES)]
)
def test_lossy_features_run_beside_all_others(header: str) -> None:
    """One by one and with every exact feature, drawn and greedy, evictions included."""
    mode = mode_of(read_features(header))
    sequences: list[Sequence] = [
        build.sequence(
            index,
            build.prompt(70 + 9 * index, salt=index % 3),
            30,
            mode=mode,
            params=SamplingParams(
                temperature=index % 2, top_p=0.9, presence=0.2, seed=index, ignore_eos=True
            ),
        )
        for index in range(8)
    ]
    outcome = build.run_dry(build.engine(kv_tokens=512), sequences)
    assert {len(tokens) for tokens in outcome.tokens.values()} == {30}
    assert {end.reason for end in outcome.ends.values()} == {"length"}


def test_every_lossy_feature_has_limits_of_its_own() -> None:
    """Whatever may change an answer is held to stated limits, and `true` contains none of it."""
    assert set(LOSSY_FEATURES) <= set(LOSSY)
    assert limits_for(EXACT_FEATURES) == EXACT
    for name in LOSSY_FEATURES:
        assert not limits_for((*EXACT_FEATURES, name)).is_exact
