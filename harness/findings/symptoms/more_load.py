"""The load changed: more requests, longer prompts or longer answers than normal."""

import math
from functools import partial
from typing import Final

from harness.findings.quantity import change
from harness.findings.symptoms.measure import figure, first, given, ratio, requests_per_s, total
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.metric import Metric
from harness.metrics.catalogue.server import OUTPUT_TOKENS, PROMPT_TOKENS, REFUSED, REQUESTS
from harness.metrics.window import Window

GROWN: Final = 1.3
SURE: Final = 3.0
"""Standard errors that a rise must be beyond what as many requests scatter by."""


def check(context: Context) -> Symptom | None:
    """Fires where requests a second, or tokens a request, are 30 % above normal, surely."""
    figures = given(
        figure(context, "requests a second", requests_per_s),
        figure(
            context,
            "prompt tokens a request",
            partial(_each, (PROMPT_TOKENS, canonical.PROMPT_TOKENS)),
        ),
        figure(
            context,
            "output tokens a request",
            partial(_each, (OUTPUT_TOKENS, canonical.OUTPUT_TOKENS)),
        ),
    )
    grown = [(each.value / each.normal, each) for each in figures if each.normal]
    times, first = max(grown, key=lambda pair: pair[0], default=(0.0, None))
    if first is None or times < GROWN or not _is_beyond_chance(context, times):
        return None
    return Symptom(
        name="more_load",
        seen=f"The load is another: {change(times - 1)} {first.what}.",
        cause="Clients ask for more than in the normal window.",
        fix=(
            "See who asks (by client or route). Find the load that the server holds with "
            "tailbreak run, over the axis that grew, and limit or scale by it."
        ),
        strength=times / GROWN,
        evidence=(first, *(each for each in figures if each is not first)),
    )


def _each(metrics: tuple[Metric, ...], window: Window) -> float | None:
    requests = first(window.rate, REQUESTS, canonical.REQUESTS)
    return ratio(first(window.rate, *metrics), requests)


def _is_beyond_chance(context: Context, times: float) -> bool:
    """A dozen requests in place of nine are no other load.

    The logarithm of a ratio of two counts scatters by sqrt(1/n + 1/m); means of lengths that
    scatter by as much as they are do as well.
    """
    counts = [_n_requests(each) for each in (context.normal, context.fault) if each is not None]
    known = [n for n in counts if n]
    error = math.sqrt(sum(1 / n for n in known))
    return len(known) == 2 and math.log(times) >= SURE * error


def _n_requests(window: Window) -> float | None:
    done = first(window.increase, REQUESTS, canonical.REQUESTS)
    return total(done, window.increase(REFUSED.name))
