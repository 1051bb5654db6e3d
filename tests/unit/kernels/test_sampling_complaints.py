"""What samplers in the field got wrong, each as the fact that ours gets right."""

import numpy as np
import pytest
import torch
from scipy import stats

from harness.base.rng import generator
from kernels.sampling import build_settings, probabilities, sample
from tests.kernel_builds import each_build, use

VOCAB = 4099
INFINITE = torch.inf


def make_logits(n_rows: int, vocab_size: int = VOCAB, scale: float = 2.0) -> torch.Tensor:
    """Random rows."""
    rows = generator(n_rows, "rows").normal(0, scale, (n_rows, vocab_size))
    return torch.from_numpy(rows.astype(np.float32))


@each_build
def test_each_row_has_its_own_seed(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds of 1, 2, 3, 4 act as these four, whatever the batchmates' seeds are."""
    backend = use(build, monkeypatch)
    rows = make_logits(1).expand(64, VOCAB)
    together = sample(rows, build_settings(64, seed=range(64)), backend=backend).token_ids
    assert len(set(together.tolist())) > 32
    for seed in (1, 2, 3, 63):
        alone = sample(rows[:1], build_settings(1, seed=seed), backend=backend).token_ids
        assert alone[0] == together[seed]


@each_build
def test_a_filter_that_keeps_the_winner_does_not_change_it(
    build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise belongs to the token id, not to its rank: of what is kept the same token wins."""
    backend = use(build, monkeypatch)
    rows = make_logits(200)
    keys = {"seed": np.arange(200), "position": 5}
    free = sample(rows, build_settings(200, **keys), backend=backend).token_ids
    n_kept = 0
    for setting in ({"top_k": 300}, {"top_p": 0.8}, {"min_p": 0.01}, {"typical_p": 0.8}):
        settings = build_settings(200, **setting, **keys)
        kept = probabilities(rows, settings, backend=backend).gather(1, free[:, None])[:, 0] > 0
        drawn = sample(rows, settings, backend=backend).token_ids
        assert torch.equal(drawn[kept], free[kept])
        n_kept += int(kept.sum())
    assert n_kept > 200


@each_build
@pytest.mark.parametrize(
    "setting", [{"temperature": 0.0}, {"top_k": 1}, {"top_k": 1, "top_p": 0.5}]
)
def test_greedy_takes_the_lowest_id_of_equals(
    setting: dict[str, float], build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Temperature 0 and top_k = 1 are one rule, without noise, in any batch."""
    backend = use(build, monkeypatch)
    rows = make_logits(40, scale=0.1)
    rows[:, [700, 2000, 4098]] = 3.0
    settings = build_settings(40, **setting, seed=np.arange(40))
    draw = sample(rows, settings, backend=backend)
    assert draw.token_ids.tolist() == [700] * 40
    assert probabilities(rows, settings, backend=backend)[:, 700].tolist() == [1.0] * 40


@each_build
def test_a_peaked_row_keeps_its_nucleus(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One token with 45 % does not push out the others that top-p must keep."""
    backend = use(build, monkeypatch)
    weights = torch.full((VOCAB,), 0.25 / (VOCAB - 3))
    weights[[7, 8, 9]] = torch.tensor([0.45, 0.2, 0.1])
    row = weights.log()[None]
    kept = probabilities(row, build_settings(1, top_p=0.74), backend=backend)[0]
    assert kept.nonzero().flatten().tolist() == [7, 8, 9]
    kept = probabilities(row, build_settings(1, top_p=0.85), backend=backend)[0]
    n_rest = int((kept > 0).sum()) - 3
    assert n_rest == np.ceil(0.1 / (0.25 / (VOCAB - 3)))
    assert bool((kept[: n_rest + 3] > 0).all())  # of equals, the lowest ids


@each_build
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("vocab_size", [7, 4099, 40001])
def test_padded_ids_are_never_drawn(
    vocab_size: int, dtype: torch.dtype, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice of a padded vocabulary draws what its copy draws: rows are found by their stride."""
    backend = use(build, monkeypatch)
    padded = make_logits(6, vocab_size + 61).to(dtype)
    padded[:, vocab_size:] = 50.0
    settings = build_settings(6, top_p=[0.9, 1, 1, 1, 1, 0.3], top_k=[0, 5, 0, 0, 0, 9])
    settings["typical_p"][3] = 0.5
    settings["temperature"][4] = 0.0
    sliced = sample(padded[:, :vocab_size], settings, backend=backend)
    assert int(sliced.token_ids.max()) < vocab_size
    copied = sample(padded[:, :vocab_size].float().contiguous(), settings, backend=backend)
    assert torch.equal(sliced.token_ids, copied.token_ids)


@each_build
def test_columns_that_are_apart_are_read_or_refused(
    build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second column: the eager backend reads it, the native one says what to do."""
    backend = use(build, monkeypatch)
    apart = make_logits(2, 20)[:, ::2]
    if backend == "torch":
        assert int(sample(apart, build_settings(2), backend=backend).token_ids.max()) < 10
        return
    with pytest.raises(ValueError, match=r"column stride of 2, allowed 1: call contiguous\(\)"):
        sample(apart, build_settings(2), backend=backend)
    with pytest.raises(ValueError, match="got another type, allowed float32 and bfloat16"):
        sample(apart.double().contiguous(), build_settings(2), backend=backend)


@each_build
def test_equal_tokens_win_equally_often(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A winner is an id, not a value: equals at the top share the draws."""
    backend = use(build, monkeypatch)
    rows = torch.full((4000, 1000), -20.0)
    ties = [3, 400, 401, 999]
    rows[:, ties] = 2.5
    draw = sample(rows, build_settings(4000, seed=np.arange(4000)), backend=backend)
    counts = np.bincount(draw.token_ids.numpy(), minlength=1000)[ties]
    assert counts.sum() == 4000
    assert stats.chisquare(counts).pvalue > 1e-4


@each_build
def test_rows_without_a_number(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN and -inf rows end with token 0 and the flag; one NaN is flagged and never drawn."""
    backend = use(build, monkeypatch)
    rows = make_logits(6, 1000)
    rows[1] = torch.nan
    rows[2] = -INFINITE
    rows[3, ::2] = torch.nan
    rows[4, 0] = torch.nan
    for setting in ({}, {"top_k": 3}, {"temperature": 0.0}, {"top_p": 0.5}, {"typical_p": 0.5}):
        draw = sample(rows, build_settings(6, **setting, seed=range(6)), backend=backend)
        assert draw.is_faulty.tolist() == [False, True, True, False, False, False]
        assert draw.has_nan.tolist() == [False, True, False, True, True, False]
        assert draw.token_ids[1:3].tolist() == [0, 0]
        assert draw.token_ids[3] % 2 == 1
        assert draw.token_ids[4] != 0
        shares = probabilities(rows, build_settings(6, **setting), backend=backend)
        np.testing.assert_allclose(shares.sum(dim=1), [1, 0, 0, 1, 1, 1])


@each_build
def test_an_infinite_logit_wins(build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """+inf is drawn, the first of several, under any temperature and filter, and is no fault."""
    backend = use(build, monkeypatch)
    rows = make_logits(1, 1000)
    rows[0, [444, 888]] = INFINITE
    for setting in ({}, {"temperature": 0.3}, {"top_p": 0.4, "top_k": 7}, {"typical_p": 0.2}):
        draw = sample(rows, build_settings(1, **setting), backend=backend)
        assert draw.token_ids.tolist() == [444]
        assert not draw.is_faulty[0]


@each_build
@pytest.mark.parametrize("temperature", [1e-5, 1e-4, 1e30])
def test_no_temperature_overflows(
    temperature: float, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The largest numbers and the least temperature give the argmax, a huge one a fair draw."""
    backend = use(build, monkeypatch)
    rows = make_logits(64, 1000)
    rows[:, 10] = 3e38
    rows[:, 20] = -3e38
    settings = build_settings(64, temperature=temperature, seed=np.arange(64), top_p=0.9)
    tokens = sample(rows, settings, backend=backend).token_ids
    if temperature < 1:
        assert tokens.tolist() == [10] * 64
    share = probabilities(rows, settings, backend=backend)
    np.testing.assert_allclose(share.sum(dim=1), 1.0)
    assert len(set(tokens.tolist())) == 1 or temperature > 1


@each_build
def test_top_k_is_off_at_0_and_below_and_at_the_vocabulary(
    build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0, -1, the vocabulary's size and more are the same: no top-k."""
    backend = use(build, monkeypatch)
    rows = make_logits(1, 300).expand(5, 300)
    share = probabilities(rows, build_settings(5, top_k=[0, -1, 300, 301, 299]), backend=backend)
    assert [(each > 0).sum().item() for each in share] == [300, 300, 300, 300, 299]


@each_build
def test_a_half_precision_row_keeps_its_whole_tail(
    build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Masses of a bfloat16 row of 131,072 are summed in double: 0.999 of equals is 130,941."""
    backend = use(build, monkeypatch)
    rows = torch.zeros((1, 131_072), dtype=torch.bfloat16)
    kept = probabilities(rows, build_settings(1, top_p=0.999), backend=backend)[0]
    assert int((kept > 0).sum()) == np.ceil(0.999 * 131_072)
    assert bool((kept[: int(np.ceil(0.999 * 131_072))] > 0).all())


@each_build
@pytest.mark.parametrize("name", ["top_p", "typical_p"])
def test_the_smallest_share_above_0_keeps_one(
    name: str, build: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A subnormal share is above 0, so it is allowed, and the first token alone reaches it."""
    backend = use(build, monkeypatch)
    rows = make_logits(3)
    settings = build_settings(3, **{name: 5e-324}, seed=[1, 2, 3])
    kept = probabilities(rows, settings, backend=backend)
    assert kept.count_nonzero(dim=-1).tolist() == [1, 1, 1]
    drawn = sample(rows, settings, backend=backend).token_ids
    assert torch.equal(drawn, kept.argmax(dim=-1))
