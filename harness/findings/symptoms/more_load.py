"""The load changed: more requests, longer prompts or longer answers than normal."""

from functools import partial
from typing import Final

from harness.findings.quantity import change
from harness.findings.symptoms.measure import figure, first, given, ratio, requests_per_s
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.metric import Metric
from harness.metrics.catalogue.server import OUTPUT_TOKENS, PROMPT_TOKENS, REQUESTS
from harness.metrics.window import Window

GROWN: Final = 1.3


def check(context: Context) -> Symptom | None:
    """Fires where requests a second, or tokens a request, are 30 % above normal."""
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
    if first is None or times < GROWN:
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
