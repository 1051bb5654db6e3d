import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from harness.base.errors import SetupError
from harness.records.fidelity import Path
from harness.server import sampler
from harness.server.accel import LOSSY_FEATURES, read_features
from harness.server.engine import Engine
from harness.server.fidelity.check import Subject, check
from harness.server.fidelity.close import close_cuts, close_draws, close_greedy
from harness.server.fidelity.limits import EXACT, LOSSY, limits_for
from harness.server.fidelity.settings import SETTINGS
from harness.server.fidelity.work import LENGTHS, SHARED, Work, build_works
from harness.server.kv_arena import PagedCache
from harness.server.options import ServerOptions
from harness.server.phases import Stopwatch
from harness.server.sampler import Chooser, Chosen
from harness.server.sequence import BASELINE, SamplingParams
from harness.server.sequence import Sequence as Answer
from kernels.backend import Backend, has_native
from kernels.eager.sampling import exponential_noise
from kernels.penalties import Penalties, PenaltyState, build_penalty_state
from tests.unit.server import build

GREEDY, GREEDY_PENALTIES, TEMPERATURE, PENALTIES, TOP, MIN_P = range(6)
Plant = Callable[[Engine, pytest.MonkeyPatch], None]


@cache
def works() -> list[Work]:
    return build_works(build.tokenizer(), ServerOptions(threads=1), max_model_len=2048, seed=3)


def compared(
    plant: Plant | None = None,
    patch: pytest.MonkeyPatch | None = None,
    *,
    settings: tuple[int, ...] = (GREEDY, PENALTIES),
    features: str = "true",
    n_draws: int = 1024,
) -> Path:
    """Both paths of one engine, in which a wrong path may be planted."""
    engine = build.engine(threads=1)
    if plant is not None:
        assert patch is not None
        plant(engine, patch)
    subject = Subject(
        engine=engine,
        works=works(),
        banned=build.control_ids() + build.stop_ids(),
        batch=8,
        baseline=(),
        paths=[(features, read_features(features))],
        n_draws=n_draws,
        seed=3,
        settings=tuple(SETTINGS[number] for number in settings),
    )
    steps: list[str] = []
    (path,) = check(subject, steps.append)
    assert len(steps) == subject.n_steps
    return path


def about(path: Path, name: str) -> str:
    """What is wrong with one way of sampling, in one text."""
    setting = next(each for each in path.settings if each.name == name)
    assert all(problem.startswith(f"{name}: ") for problem in setting.problems)
    return " | ".join(setting.problems)


def test_every_exact_feature_gives_the_same_answers() -> None:
    """All exact features together pass every setting, and the comparison was no empty one."""
    path = compared(settings=tuple(range(6)))
    assert path.problems == []
    assert path.verdict == "same"
    assert path.n_cached >= 4 * SHARED
    for setting in path.settings:
        assert setting.positions.n + setting.positions.n_close == sum(w.n_output for w in works())
        assert setting.positions.n_close + setting.choices.n_close < 0.1 * setting.positions.n
        assert setting.positions.pass_rate == setting.positions.same_top1 == 1
        assert setting.positions.kl.mean is not None
        assert setting.positions.kl.mean < EXACT.kl_mean
        assert (setting.draws is None) == setting.name.startswith("greedy")
        assert setting.draws is None or setting.draws.n == 1024


@pytest.mark.parametrize("features", ["paged_kv", "adaptive_batching", "paged_kv,prefix_cache"])
def test_single_features_give_the_same_answers(features: str) -> None:
    """Features alone pass as well, and evictions on the way change nothing."""
    assert compared(features=features, n_draws=256).problems == []


def test_features_of_the_front_are_said_to_be_the_baselines_engine() -> None:
    """What runs on the same engine mode differs by nothing, and the caveat says why."""
    path = compared(features="async_store", n_draws=0)
    assert path.verdict == "same"
    assert path.caveats == ["The engine runs these features as it runs the baseline."]


def test_every_lossy_feature_has_limits() -> None:
    """What may change the answer says by how much; what is not listed is held to be exact."""
    assert set(LOSSY_FEATURES) <= set(LOSSY)
    assert limits_for(["paged_kv", "unheard_of"]) == EXACT


def test_a_depth_clip_is_within_its_limits() -> None:
    """Before its cut it is the baseline's distribution; its draws follow the clipped one."""
    path = compared(features="depth_clip", settings=(GREEDY, TEMPERATURE, TOP))
    assert path.problems == []
    assert (path.verdict, path.lossy) == ("within limits", ["depth_clip"])
    for setting in path.settings:
        assert setting.positions.n_infinite == 0
        assert setting.positions.kl.mean is not None
        assert setting.positions.kl.mean < EXACT.kl_mean


def test_a_clip_deeper_than_it_says_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """A depth clip that cuts at three nats draws by another distribution, and is found."""
    monkeypatch.setattr(sampler, "depth_of", lambda mode: 3.0 if mode.is_depth_clipped else inf)
    path = compared(features="depth_clip", settings=(TEMPERATURE,))
    assert "draws do not follow the exact distribution" in about(path, "temperature")


@pytest.mark.skipif(not has_native(), reason="fused sampling needs native kernels")
def test_a_path_that_forgets_the_window_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Native penalties over the whole answer, not its last tokens, are another distribution."""

    def forget(penalties: Penalties, *tokens: Any, backend: Backend, **sizes: Any) -> PenaltyState:
        window = -1 if backend == "cpu" else penalties.window
        return build_penalty_state(
            replace(penalties, window=window), *tokens, backend=backend, **sizes
        )

    monkeypatch.setattr(sampler, "build_penalty_state", forget)
    path = compared(features="fused_sampling", settings=(MIN_P,), n_draws=0)
    assert "KL" in about(path, "penalties, min-p") or "excludes" in about(path, "penalties, min-p")


@pytest.mark.skipif(not has_native(), reason="packed state needs native kernels")
def test_packed_state_is_within_its_limits() -> None:
    """It differs, by less than it may; its draws follow its own distribution."""
    path = compared(features="true,packed_state", settings=(TEMPERATURE, TOP))
    assert path.problems == []
    assert (path.verdict, path.lossy) == ("within limits", ["packed_state"])
    for setting in path.settings:
        assert setting.positions.kl.mean is not None
        assert 1e-5 < setting.positions.kl.mean < 0.05
        assert setting.positions.n_infinite == 0
        assert setting.draws is not None
        assert setting.draws.paths is None


@pytest.mark.skipif(not has_native(), reason="packed state needs native kernels")
def test_limits_of_a_lossy_feature_can_be_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A logit that is far off is past the limits of packed state too."""
    path = compared(
        lambda engine, patch: offset_a_logit(engine, patch, 8.0), monkeypatch,
        features="packed_state", settings=(TEMPERATURE,), n_draws=0,
    )  # fmt: skip
    assert "KL mean" in about(path, "temperature")
    assert "limit 0.05" in about(path, "temperature")
    assert path.verdict == "differs"


def offset_a_logit(engine: Engine, patch: pytest.MonkeyPatch, by: float = 0.5) -> None:
    """Token 300 gets a little more on the accelerated path."""
    run = engine._runner.run

    def wrong(*args: Any) -> Tensor:
        logits = run(*args)
        if engine.scheduler.mode != BASELINE:
            logits[:, 300] += by
        return logits

    patch.setattr(engine._runner, "run", wrong)


def test_an_offset_of_one_logit_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distributions differ, and the place where they differ most is told."""
    path = compared(offset_a_logit, monkeypatch)
    assert path.verdict == "differs"
    for name in ("greedy", "penalties"):
        assert "KL mean" in about(path, name)
        assert "after prompt" in about(path, name)


class _Wrong:
    """A sampler that goes wrong on the accelerated path only."""

    def __init__(self, sampler: Chooser) -> None:
        self._sampler = sampler

    def weigh(self, logits: Tensor, sequences: Sequence[Answer]) -> Tensor:
        return self._sampler.weigh(logits, sequences)

    def choose(self, logits: Tensor, sequences: Sequence[Answer], watch: Stopwatch) -> list[Chosen]:
        if not sequences or sequences[0].mode == BASELINE:
            return self._sampler.choose(logits, sequences, watch)
        return self.spoil(logits, sequences, watch)

    def spoil(self, logits: Tensor, sequences: Sequence[Answer], watch: Stopwatch) -> list[Chosen]:
        return self._sampler.choose(logits, sequences, watch)


class _SwappedPenalties(_Wrong):
    """The additive penalties come before the repetition penalty."""

    def weigh(self, logits: Tensor, sequences: Sequence[Answer]) -> Tensor:
        if sequences[0].mode == BASELINE:
            return self._sampler.weigh(logits, sequences)
        return self._sampler.weigh(swapped(logits, sequences), without_penalties(sequences))

    def spoil(self, logits: Tensor, sequences: Sequence[Answer], watch: Stopwatch) -> list[Chosen]:
        wrong = swapped(logits, sequences)
        return self._sampler.choose(wrong, without_penalties(sequences), watch)


def swapped(logits: Tensor, sequences: Sequence[Answer]) -> Tensor:
    """Penalised in the wrong order, one token at a time."""
    logits = logits.clone()
    for row, each in enumerate(sequences):
        output, params = each.tokens[each.n_prompt :], each.params
        for token in set(each.tokens):
            count = output.count(token)
            value = logits[row, token] - params.frequency * count - params.presence * (count > 0)
            strength = params.repetition
            logits[row, token] = value / strength if value > 0 else value * strength
    return logits


def without_penalties(sequences: Sequence[Answer]) -> list[Answer]:
    twins = [copy.copy(each) for each in sequences]
    for twin in twins:
        twin.params = replace(twin.params, repetition=1.0, frequency=0.0, presence=0.0)
    return twins


def test_a_swapped_order_of_penalties_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the setting with penalties fails: its distributions and some of its tokens."""
    path = compared(lambda engine, _: listen(engine, _SwappedPenalties), monkeypatch)
    assert about(path, "greedy") == ""
    assert "KL mean" in about(path, "penalties")
    assert "another token for the same seed" in about(path, "penalties")


class _SlotNoise(_Wrong):
    """The noise is keyed by the slot and not by the seed."""

    def spoil(self, logits: Tensor, sequences: Sequence[Answer], watch: Stopwatch) -> list[Chosen]:
        own = [each.params for each in sequences]
        for slot, each in enumerate(sequences):
            each.params = replace(each.params, seed=slot)
        chosen = self._sampler.choose(logits, sequences, watch)
        for each, params in zip(sequences, own, strict=True):
            each.params = params
        return chosen


def test_noise_of_the_slot_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The distribution is right; the same seed gives other tokens, and draws repeat themselves."""
    path = compared(lambda engine, _: listen(engine, _SlotNoise), monkeypatch)
    assert about(path, "greedy") == ""
    said = about(path, "penalties")
    assert "KL" not in said
    assert "another token for the same seed" in said
    assert "draws do not follow the exact distribution" in said
    assert "draws are not the baseline's" in said


class _LostTail(_Wrong):
    """Tokens outside the likeliest twenty are never drawn, whatever is said of the weights."""

    def spoil(self, logits: Tensor, sequences: Sequence[Answer], watch: Stopwatch) -> list[Chosen]:
        own = [each.params for each in sequences]
        for each in sequences:
            each.params = replace(each.params, top_k=20)
        chosen = self._sampler.choose(logits, sequences, watch)
        for each, params in zip(sequences, own, strict=True):
            each.params = params
        return chosen


def test_a_lost_tail_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sampler that does not draw by the weights it tells fails by its draws alone."""
    path = compared(
        lambda engine, _: listen(engine, _LostTail), monkeypatch, settings=(TEMPERATURE,)
    )
    said = about(path, "temperature")
    assert "KL" not in said
    assert "draws do not follow the exact distribution" in said


def listen(engine: Engine, wrong: type[_Wrong]) -> None:
    engine.sampler = wrong(engine.sampler)


def make_blocks_stale(_: Engine, patch: pytest.MonkeyPatch) -> None:
    """A prefix from the cache has its second block in place of the first."""
    take = PagedCache._take_prefix

    def wrong(cache: PagedCache, sequence: Answer) -> None:
        take(cache, sequence)
        if sequence.n_computed:
            sequence.slots[:16] = sequence.slots[16:32]

    patch.setattr(PagedCache, "_take_prefix", wrong)


def test_stale_blocks_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys and values of other tokens change the distributions after the late prompts."""
    path = compared(make_blocks_stale, monkeypatch, n_draws=0)
    for name in ("greedy", "penalties"):
        assert "KL mean" in about(path, name)
        place = about(path, name).split("after prompt ")[1].split()[0].strip(":;")
        assert int(place) > len(LENGTHS)


def test_a_token_that_one_path_excludes_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A filter that keeps one token too few makes KL infinite, and nothing hides it."""

    class _OneLess(_Wrong):
        def weigh(self, logits: Tensor, sequences: Sequence[Answer]) -> Tensor:
            weights = self._sampler.weigh(logits, sequences)
            if sequences[0].mode != BASELINE and sequences[0].params.top_k:
                rare = weights.masked_fill(weights == -torch.inf, torch.inf).argmin(dim=-1)
                weights[torch.arange(len(weights)), rare] = -torch.inf
            return weights

    path = compared(
        lambda engine, _: listen(engine, _OneLess), monkeypatch, settings=(TOP,), n_draws=0
    )
    assert "one path excludes what the other allows" in about(path, "top-k, top-p")
    assert path.settings[0].positions.kl.mean is None
    assert path.settings[0].positions.n_infinite > 100


def test_close_calls() -> None:
    """Ties, races and cuts within the margins are close; those beyond are not."""
    weights = torch.tensor([[1.0, 1.00005, 0.0], [1.0, 1.2, 0.0], [0.0, -torch.inf, -torch.inf]])
    assert close_greedy(weights).tolist() == [True, False, False]
    noise = exponential_noise(torch.tensor([4]), torch.tensor([9]), 3)
    even = noise.log().float()
    even[0, 2] -= 1
    keys = (torch.tensor([4]), torch.tensor([9]))
    assert close_draws(even, *keys).tolist() == [True]
    even[0, 1] += 0.1
    assert close_draws(even, *keys).tolist() == [False]


@pytest.mark.parametrize(
    ("params", "logits", "is_close"),
    [
        ({"top_k": 1}, [0.5, 0.50005, 0.1], True),
        ({"top_k": 2}, [0.5, 0.50005, 0.1], False),
        ({"top_k": 3}, [0.5, 0.5, 0.5], False),
        ({"min_p": 0.5}, [0.0, float(np.log(0.5)) + 5e-5, -4.0], True),
        ({"min_p": 0.5}, [0.0, float(np.log(0.5)) + 5e-3, -4.0], False),
        ({"top_p": 0.8}, np.log([0.5, 0.3, 0.2]).tolist(), True),
        ({"top_p": 0.79}, np.log([0.5, 0.3, 0.2]).tolist(), False),
        ({"top_k": 2, "top_p": 0.625}, np.log([0.5, 0.3, 0.2]).tolist(), True),
        ({"top_p": 0.7}, [0.0, -1.0, -1.00005], True),
        ({"top_p": 0.5}, [0.0, -1.0, -1.00005], False),
        ({}, [0.0, 0.0, 0.0], False),
    ],
)
def test_close_cuts(params: dict[str, Any], logits: list[float], *, is_close: bool) -> None:
    """A cut is close where a token lies within rounding of it, filters before it applied."""
    found = close_cuts(torch.tensor([logits]), SamplingParams(**params))
    assert found.tolist() == [is_close]


def test_work_fits_what_the_server_has_room_for() -> None:
    """A small arena and more slots give shorter and more prompts; without room it is an error."""
    small = ServerOptions(threads=1, kv_tokens=128, max_num_seqs=20)
    found = build_works(build.tokenizer(), small, max_model_len=2048, seed=1)
    assert len(found) == 24
    separator = len(found[2].segments[0].forced)
    assert max(len(each.tokens) + each.n_output for each in found) + separator <= 128 + 8
    with pytest.raises(SetupError, match="raise them"):
        build_works(build.tokenizer(), small, max_model_len=32, seed=1)
