"""One position by hand: which figure is which, and what lies too close to be held to a path."""

import pytest
import torch

from harness.server.fidelity.check import _path, _PathFigures
from harness.server.fidelity.compare import compare
from harness.server.fidelity.limits import EXACT
from harness.server.fidelity.listener import Heard
from harness.server.fidelity.settings import SETTINGS, SamplingSetting
from harness.server.fidelity.trace import Trace
from harness.server.sequence import SamplingParams
from harness.stats.goodness import Goodness
from kernels.divergence import reference_divergence
from kernels.sampling import reference_noise

LOGITS = torch.tensor([2.0, 1.0, 0.0, -1.0])
DRAWN = SamplingSetting("drawn", SamplingParams(temperature=1.0))


def trace(*positions: tuple[torch.Tensor, int]) -> Trace:
    """A pass of one work; each position is drawn by seed 3 at position 5."""
    heard = tuple(Heard(logits, logits, logits, chosen, 3, 5) for logits, chosen in positions)
    answer = tuple(each.token_id for each in heard)
    return Trace(answers=(answer,), heard=(heard,), n_cached=0, n_evictions=0)


def test_every_figure_stands_under_its_name() -> None:
    """KL, reverse KL, JS and variation are the reference's four, in their places."""
    other = torch.tensor([0.5, 1.5, 0.0, -3.0])
    found = compare(trace((LOGITS, 0)), trace((other, 0)), SETTINGS[0], EXACT).positions
    told = (found.kl.mean, found.reverse_kl.mean, found.js.mean, found.variation.mean)
    expected = reference_divergence(LOGITS.double().numpy(), other.double().numpy())
    assert told == pytest.approx(expected)
    assert len({round(each, 3) for each in expected}) == 4


def test_a_race_too_close_to_call_is_not_held_against_a_path() -> None:
    """Two tokens level in the race may change places; a third may not be taken for the winner."""
    noise = torch.from_numpy(reference_noise(3, 5, 4))
    level = (noise.log() + torch.tensor([0.0, 1e-6, -5.0, -5.0])).float()
    found = compare(trace((level, 1)), trace((level, 0)), DRAWN, EXACT)
    assert (found.choices.n_close, found.choices.n_different) == (1, 0)
    clear = (noise.log() + torch.tensor([0.0, 1.0, -5.0, -5.0])).float()
    found = compare(trace((clear, 1)), trace((clear, 0)), DRAWN, EXACT)
    assert (found.choices.n_close, found.choices.n_different) == (0, 1)
    assert "another token for the same seed" in found.problems[0]


def test_a_token_at_a_filter_s_cut_is_not_held_against_a_path() -> None:
    """Where two tokens are level at top-k's cut, a path may keep the other one and draw it."""
    level = torch.tensor([2.0, 1.0, 1.0, -1.0])
    setting = SamplingSetting("top-k", SamplingParams(temperature=1.0, top_k=2))
    noise = torch.from_numpy(reference_noise(3, 5, 4))
    race = (level.double() - noise.log()).topk(2).values
    assert race[0] - race[1] > 0.01  # the race itself is clear: it is the cut that is close
    one, two = trace((level, 1), (LOGITS, 0)), trace((level, 2), (LOGITS, 0))
    assert compare(one, two, setting, EXACT).choices.n_different == 0
    one, two = trace((LOGITS, 1), (LOGITS, 0)), trace((LOGITS, 2), (LOGITS, 0))
    assert compare(one, two, setting, EXACT).choices.n_different == 1


def test_all_tests_of_a_path_hold_together() -> None:
    """The p-values that are told are adjusted for how many tests the path had."""
    figures = _PathFigures("true", ("paged_kv",))
    same = compare(trace((LOGITS, 0)), trace((LOGITS, 0)), DRAWN, EXACT)
    test = Goodness(statistic=9.0, freedom=3, n=100)
    figures.compared.append(same)
    figures.tests = {("drawn", kind): test for kind in ("baseline", "path", "paths")}
    assert 3 * test.p_value < 1
    told = _told(figures)
    assert told == pytest.approx([3 * test.p_value] * 3)


def _told(figures: _PathFigures) -> list[float | None]:
    class Only:
        settings = (DRAWN,)
        baseline = ()

    (setting,) = _path(Only(), figures).settings  # type: ignore[arg-type]
    assert setting.draws is not None
    return [setting.draws.baseline, setting.draws.path, setting.draws.paths]
