"""Which symptoms a time shows, when each began, and which of them the others follow from.

Rules judge one window; here each that fires is asked again over short windows, earliest first, so
that symptoms come in order. The table of what may follow from what breaks ties and names the first
cause: the earliest symptom that no other one explains.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from harness.findings.symptoms import RULES, Context, Rule, Symptom
from harness.metrics.window import Window

MAY_FOLLOW: Final[Mapping[str, frozenset[str]]] = {
    "gc_pauses": frozenset({"garbage", "memory_growth"}),
    "memory_growth": frozenset({"garbage", "more_load"}),
    "garbage": frozenset({"more_load"}),
    "store_exhausted": frozenset({"store_slow", "gc_pauses", "more_load"}),
    "store_slow": frozenset({"store_exhausted", "host_starved"}),
    "kv_pressure": frozenset({"more_load", "prefix_cache_lost", "pool_dead"}),
    "prefix_cache_lost": frozenset({"kv_pressure", "pool_dead"}),
    "loop_blocked": frozenset({"gc_pauses", "host_starved", "garbage"}),
    "slow_phase": frozenset({
        "more_load", "host_starved", "gpu_throttled", "pool_dead", "prefix_cache_lost",
        "gc_pauses", "garbage", "store_slow", "store_exhausted", "kv_pressure",
    }),
    "queueing": frozenset({
        "more_load", "host_starved", "gpu_throttled", "pool_dead", "prefix_cache_lost",
        "gc_pauses", "garbage", "store_slow", "store_exhausted", "kv_pressure", "slow_phase",
        "loop_blocked",
    }),
    "errors_5xx": frozenset({
        "more_load", "host_starved", "pool_dead", "gc_pauses", "garbage", "store_slow",
        "store_exhausted", "kv_pressure", "loop_blocked", "queueing", "memory_growth",
    }),
    "client_late": frozenset({"host_starved"}),
}  # fmt: skip
"""By symptom: what it may follow from. A pair that stands both ways is decided by onset."""
N_PARTS: Final = 12
SHORTEST_S: Final = 5.0


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """What was found in a time.

    Attributes:
        symptoms: in the order of their onset; causes first where that is the same. The `window` of
            each begins with the first short window that shows it.
        first_cause: the earliest that none of the others explains; None without a symptom.
        follows: by symptom, which of the others found may have caused it.
    """

    symptoms: tuple[Symptom, ...]
    first_cause: Symptom | None
    follows: Mapping[str, tuple[str, ...]]


def diagnose(context: Context, rules: Sequence[Rule] = RULES) -> Diagnosis:
    """Every rule over the whole time, then each that fires over its parts."""
    fired = [(rule, found) for rule in rules if (found := rule(context)) is not None]
    placed = [_placed(rule, found, context) for rule, found in fired]
    order = {symptom.name: place for place, symptom in enumerate(placed)}
    symptoms = sorted(placed, key=lambda each: (_onset(each), order[each.name]))
    follows = {each.name: _causes(each, symptoms) for each in symptoms}
    roots = [each for each in symptoms if not follows[each.name]] or symptoms
    return Diagnosis(
        symptoms=tuple(symptoms), first_cause=roots[0] if roots else None, follows=follows
    )


def _causes(symptom: Symptom, found: Sequence[Symptom]) -> tuple[str, ...]:
    """Names of the others that may have caused it; of two that may cause each other the earlier."""
    allowed = MAY_FOLLOW.get(symptom.name, frozenset())
    place = {each.name: n for n, each in enumerate(found)}
    return tuple(
        each.name
        for each in found
        if each.name in allowed
        and not (
            symptom.name in MAY_FOLLOW.get(each.name, frozenset())
            and place[symptom.name] < place[each.name]
        )
    )


def _onset(symptom: Symptom) -> float:
    return symptom.window[0] if symptom.window else float("-inf")


def _placed(rule: Rule, found: Symptom, context: Context) -> Symptom:
    """The symptom with the time from which it was seen; in several stretches there is no such."""
    fault = context.fault
    if fault is None or len(fault.spans) > 1:
        return found
    for start, end in parts(fault):
        part = replace(context, fault=fault.telemetry.window((start, end)))
        if rule(part) is not None:
            return replace(found, window=(start, fault.end_s))
    return replace(found, window=(fault.start_s, fault.end_s))


def parts(window: Window, n: int = N_PARTS) -> list[tuple[float, float]]:
    """The window in equal parts, at most `n` and none shorter than five seconds."""
    seconds = window.end_s - window.start_s
    n = max(1, min(n, int(seconds / SHORTEST_S)))
    edges = [window.start_s + seconds * place / n for place in range(n + 1)]
    return list(itertools.pairwise(edges))
