"""The whole comparison: every setting on the baseline, then on each path beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from harness.base.rng import seed_for
from harness.records.fidelity import Draws, Path, Setting
from harness.server.accel import mode_of
from harness.server.fidelity.close import close_cuts
from harness.server.fidelity.compare import Compared, compare
from harness.server.fidelity.draws import CONTEXTS, Context, Drawn, draw_context
from harness.server.fidelity.limits import ALPHA, LOSSY, limits_for
from harness.server.fidelity.settings import SETTINGS, SamplingSetting
from harness.server.fidelity.trace import Trace, run_work
from harness.stats.goodness import Goodness, holm, judge_draws, judge_same, together

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Sequence as AbstractSequence

    from harness.server.engine import Engine
    from harness.server.fidelity.work import Work

OnStep = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class Subject:
    """What is compared.

    Attributes:
        engine: Runs both paths; a wrong one may be planted in it.
        others: Engines of pools of another dtype, by the word that names them.
        banned: Tokens that are never drawn while the length is prescribed.
        batch: Rows the sampler gets at once when tokens are drawn.
        paths: Values of X-MC-Accel, each with its features.
    """

    engine: Engine
    works: list[Work]
    banned: list[int]
    batch: int
    baseline: tuple[str, ...]
    paths: list[tuple[str, tuple[str, ...]]]
    n_draws: int
    seed: int
    settings: tuple[SamplingSetting, ...] = SETTINGS
    others: Mapping[str, Engine] = field(default_factory=dict)

    def engine_of(self, features: tuple[str, ...]) -> Engine:
        """The engine that runs these features."""
        return next((self.others[name] for name in features if name in self.others), self.engine)

    @property
    def n_steps(self) -> int:
        """How often `on_step` will be called."""
        return len(self.settings) * (1 + len(self.paths))


class _PathFigures:
    """What is gathered of one path, setting by setting."""

    def __init__(self, asked: str, features: tuple[str, ...]) -> None:
        self.asked, self.features = asked, features
        self.limits = limits_for(features)
        self.compared: list[Compared] = []
        self.tests: dict[tuple[str, str], Goodness] = {}
        self.n_cached = self.n_evictions = 0


def check(subject: Subject, on_step: OnStep) -> list[Path]:
    """Compare all paths with the baseline; `on_step` hears what is begun."""
    figures = [_PathFigures(*path) for path in subject.paths]
    for setting in subject.settings:
        on_step(f"baseline: {setting.name}")
        mode = mode_of(subject.baseline)
        baseline = run_work(subject.engine, mode, setting, subject.works, seed=subject.seed)
        drawn = _draw(subject, "baseline", subject.baseline, setting, baseline, baseline)
        for each in figures:
            on_step(f"{each.asked}: {setting.name}")
            _check_setting(subject, each, setting, baseline, drawn)
    return [_path(subject, each) for each in figures]


def _check_setting(
    subject: Subject,
    figures: _PathFigures,
    setting: SamplingSetting,
    baseline: Trace,
    baseline_drawn: list[Drawn],
) -> None:
    mode = mode_of(figures.features)
    path = run_work(
        subject.engine_of(figures.features), mode, setting, subject.works,
        seed=subject.seed, prescribed=baseline.answers,
    )  # fmt: skip
    figures.compared.append(compare(baseline, path, setting, figures.limits))
    figures.n_cached += path.n_cached
    figures.n_evictions += path.n_evictions
    drawn = _draw(subject, figures.asked, figures.features, setting, baseline, path)
    if drawn:
        figures.tests[setting.name, "baseline"] = _exact(baseline_drawn)
        figures.tests[setting.name, "path"] = _exact(drawn)
        if figures.limits.is_exact:
            pairs = zip(baseline_drawn, drawn, strict=True)
            same = [judge_same(one.counts, two.counts) for one, two in pairs]
            figures.tests[setting.name, "paths"] = together(same)


def _exact(drawn: AbstractSequence[Drawn]) -> Goodness:
    return together([judge_draws(each.counts, each.exact) for each in drawn])


def _draw(
    subject: Subject,
    name: str,
    features: tuple[str, ...],
    setting: SamplingSetting,
    baseline: Trace,
    path: Trace,
) -> list[Drawn]:
    """Draws of a path from each context, with seeds of its own; none where nothing is drawn."""
    if setting.is_greedy or not subject.n_draws:
        return []
    return [
        draw_context(
            subject.engine_of(features),
            subject.works[context.work],
            baseline.answers[context.work][: context.n_output],
            path.heard[context.work][context.n_output].raw,
            mode=mode_of(features),
            setting=setting,
            banned=subject.banned,
            n_draws=subject.n_draws // len(CONTEXTS),
            batch=subject.batch,
            seed=seed_for(subject.seed, name, number),
        )
        for number, context in enumerate(_open_contexts(baseline, setting))
    ]


def _open_contexts(baseline: Trace, setting: SamplingSetting) -> list[Context]:
    """The contexts, each moved to an earlier token until none lies close to a filter's cut."""
    found = []
    for work, n_output in CONTEXTS:
        rows = [heard.unfiltered[None] for heard in baseline.heard[work][: n_output + 1]]
        is_open = [not bool(close_cuts(row, setting.params)) for row in rows]
        places = [place for place, each in enumerate(is_open) if each]
        found += [Context(work, places[-1])] if places else []
    return found


def _path(subject: Subject, figures: _PathFigures) -> Path:
    """The figures as they are stored; all tests of the path hold together."""
    adjusted = dict(
        zip(figures.tests, holm([each.p_value for each in figures.tests.values()]), strict=True)
    )
    settings = [
        _setting(setting, compared, figures.tests, adjusted)
        for setting, compared in zip(subject.settings, figures.compared, strict=True)
    ]
    return Path(
        asked=figures.asked,
        features=list(figures.features),
        lossy=[feature for feature in figures.features if feature in LOSSY],
        limits=figures.limits.told(),
        n_cached=figures.n_cached,
        n_evictions=figures.n_evictions,
        settings=settings,
        caveats=_caveats(subject, figures),
    )


def _caveats(subject: Subject, figures: _PathFigures) -> list[str]:
    """What the comparison could not see."""
    caveats = []
    if "prefix_cache" in figures.features and not figures.n_cached:
        caveats.append("No prompt began with blocks of another: the prefix cache was not used.")
    is_same = mode_of(figures.features) == mode_of(subject.baseline)
    if is_same and subject.engine_of(figures.features) is subject.engine:
        caveats.append("The engine runs these features as it runs the baseline.")
    return caveats


WHOSE: Final = {
    "baseline": "the baseline's draws do not follow the exact distribution",
    "path": "draws do not follow the exact distribution",
    "paths": "draws are not the baseline's",
}


def _setting(
    setting: SamplingSetting,
    compared: Compared,
    tests: dict[tuple[str, str], Goodness],
    adjusted: dict[tuple[str, str], float],
) -> Setting:
    p_values = {kind: adjusted[name, kind] for name, kind in adjusted if name == setting.name}
    problems = list(compared.problems)
    for kind, p_value in p_values.items():
        if p_value < ALPHA:
            n = tests[setting.name, kind].n
            problems.append(f"{setting.name}: {WHOSE[kind]} (p = {p_value:.1g}, {n:,} draws)")
    return Setting(
        name=setting.name,
        params=setting.told(),
        positions=compared.positions,
        choices=compared.choices,
        draws=_draws(p_values, tests[setting.name, "path"]) if p_values else None,
        problems=problems,
    )


def _draws(p_values: dict[str, float], test: Goodness) -> Draws:
    return Draws(
        n=test.n,
        baseline=p_values["baseline"],
        path=p_values["path"],
        paths=p_values.get("paths"),
        divergence=test.divergence if test.statistic < float("inf") else None,
    )
