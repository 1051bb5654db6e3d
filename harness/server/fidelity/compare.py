"""Compares two passes over the same work: distributions, choices, and what is past its limit."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from harness.records.fidelity import Choices, Positions, Spread
from harness.server.fidelity.close import close_cuts, close_draws, close_greedy
from kernels.divergence import measure_divergence, summarise

if TYPE_CHECKING:
    from torch import Tensor

    from harness.server.fidelity.limits import Limits
    from harness.server.fidelity.settings import SamplingSetting
    from harness.server.fidelity.trace import Trace


class Compared(NamedTuple):
    """Figures of one setting, and what is past its limit."""

    positions: Positions
    choices: Choices
    problems: list[str]


def compare(baseline: Trace, path: Trace, setting: SamplingSetting, limits: Limits) -> Compared:
    """Hold a path's pass against the baseline's, along the same tokens."""
    cuts = close_cuts(baseline.unfiltered, setting.params)
    positions, doubts = _distributions(baseline, path, cuts, limits)
    choices, difference = _choices(baseline, path, cuts, setting)
    if limits.is_exact and difference:
        doubts.append(difference)
    return Compared(positions, choices, [f"{setting.name}: {doubt}" for doubt in doubts])


def _distributions(
    baseline: Trace, path: Trace, cuts: Tensor, limits: Limits
) -> tuple[Positions, list[str]]:
    """Exact paths are compared as they draw; lossy ones before the filters, or KL were infinite."""
    if limits.is_exact:
        one, two, rows = baseline.weights, path.weights, (~cuts).nonzero().flatten()
    else:
        one, two, rows = baseline.unfiltered, path.unfiltered, torch.arange(len(cuts))
    if not len(rows):
        what = f"nothing to compare: a filter's cut lies close at all {len(cuts)} positions"
        return _no_positions(len(cuts), limits), [what]
    found = measure_divergence(one[rows], two[rows])
    kl = _known(found.kl)
    same_top1 = float((one[rows].argmax(dim=-1) == two[rows].argmax(dim=-1)).double().mean())
    figures = Positions(
        n=len(rows),
        n_close=len(cuts) - len(rows),
        n_infinite=int(kl.isinf().sum()),
        kl=_spread(kl, limits),
        reverse_kl=_spread(found.reverse_kl, limits),
        js=_spread(found.js, limits),
        variation=_spread(found.variation, limits),
        same_top1=same_top1,
        pass_limit=limits.kl_each,
        pass_rate=summarise(kl, limits.kl_each).pass_rate,
    )
    where = path.place(int(rows[kl.argmax()]))
    return figures, _past_limits(figures, limits, where)


def _no_positions(n_close: int, limits: Limits) -> Positions:
    unknown = Spread(mean=None, p999=None, maximum=None)
    return Positions(
        n=0, n_close=n_close, n_infinite=0, kl=unknown, reverse_kl=unknown, js=unknown,
        variation=unknown, same_top1=0.0, pass_limit=limits.kl_each, pass_rate=0.0,
    )  # fmt: skip


def _known(values: Tensor) -> Tensor:
    """What is no distribution at all is as far away as can be."""
    return values.masked_fill(values.isnan(), math.inf)


def _spread(values: Tensor, limits: Limits) -> Spread:
    told = summarise(_known(values), limits.kl_each)[:3]
    mean, p999, maximum = (value if math.isfinite(value) else None for value in told)
    return Spread(mean=mean, p999=p999, maximum=maximum)


def _past_limits(figures: Positions, limits: Limits, where: str) -> list[str]:
    """What the distributions are past, and where most."""
    if figures.n_infinite:
        what = "one path excludes what the other allows, or gives no distribution"
        return [f"{what}, at {figures.n_infinite} of {figures.n} positions, first at {where}"]
    doubts = []
    mean, most = figures.kl.mean or 0.0, figures.kl.maximum or 0.0
    if mean >= limits.kl_mean:
        doubts.append(f"KL mean {mean:.2g}, limit {limits.kl_mean:g}; most, {most:.2g}, at {where}")
    elif limits.is_exact and most >= limits.kl_each:
        doubts.append(f"KL {most:.2g} at {where}, limit {limits.kl_each:g}")
    if figures.same_top1 < limits.least_same_top1:
        doubts.append(
            f"the same likeliest token at {figures.same_top1:.1%} of {figures.n} positions, "
            f"limit {limits.least_same_top1:.0%}"
        )
    return doubts


def _choices(
    baseline: Trace, path: Trace, cuts: Tensor, setting: SamplingSetting
) -> tuple[Choices, str | None]:
    """Where the same seed gave another token although nothing was close."""
    if setting.is_greedy:
        close = close_greedy(baseline.weights)
    else:
        seeds = torch.tensor([each.seed for each in baseline.positions])
        places = torch.tensor([each.position for each in baseline.positions])
        close = cuts | close_draws(baseline.weights, seeds, places)
    differs = (baseline.choices != path.choices) & ~close
    figures = Choices(
        n=len(close) - int(close.sum()), n_close=int(close.sum()), n_different=int(differs.sum())
    )
    if not figures.n_different:
        return figures, None
    first = int(differs.nonzero()[0])
    what = "greedy token" if setting.is_greedy else "token for the same seed"
    return figures, (
        f"another {what} at {figures.n_different} of {figures.n} positions, "
        f"first at {path.place(first)}: {int(path.choices[first])}, "
        f"the baseline's is {int(baseline.choices[first])}"
    )
