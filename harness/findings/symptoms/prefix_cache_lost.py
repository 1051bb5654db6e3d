"""Prompts no longer find their beginnings in the prefix cache."""

from typing import Final

from harness.findings.quantity import percent
from harness.findings.symptoms.measure import figure, first, ratio
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.server import PREFIX_HITS, PREFIX_QUERIES
from harness.metrics.window import Window

LEAST: Final = 0.1
"""A normal hit share below it is no cache that could be lost."""
LOST: Final = 0.5


def check(context: Context) -> Symptom | None:
    """Fires where the share of tokens found is less than half of the normal one."""
    share = figure(context, "share of prompt tokens found in the cache", _share, "share")
    if share is None or share.normal is None or share.normal < LEAST:
        return None
    if share.value >= LOST * share.normal:
        return None
    return Symptom(
        name="prefix_cache_lost",
        seen=f"Of the prompt tokens {percent(share.value)} are found, not {percent(share.normal)}.",
        cause="Prompts begin otherwise (a date, an id first), or the cache is pushed out.",
        fix=(
            "Put what changes at the end of the prompt; look whether KV memory is short; route a "
            "conversation to the server that holds it."
        ),
        strength=LOST * share.normal / max(share.value, LOST * share.normal / 100),
        evidence=(share,),
    )


def _share(window: Window) -> float | None:
    found = ratio(
        first(window.rate, PREFIX_HITS, canonical.PREFIX_HITS),
        first(window.rate, PREFIX_QUERIES, canonical.PREFIX_QUERIES),
    )
    return window.mean(canonical.PREFIX_RATIO.name) if found is None else found
