"""The server answers with errors of its own."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import figure, first, given, has_grown, ratio, total
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.server import REFUSED_5XX, REQUESTS
from harness.metrics.window import Window

LIMIT: Final = 0.01
GROWN: Final = 2.0


def check(context: Context) -> Symptom | None:
    """Fires where over 1 % of the answers have a status of 500 and above."""
    share = figure(context, "share of answers with status 5xx", _share, "share")
    if share is None or share.value <= LIMIT or not has_grown(share, GROWN):
        return None
    rate = figure(context, "5xx answers a second", lambda window: window.rate(REFUSED_5XX.name))
    often = f", {number(rate.value)} a second" if rate else ""
    return Symptom(
        name="errors_5xx",
        seen=f"{percent(share.value)} of the answers are 5xx{often}.",
        cause="The server cannot do what it is asked; what it lacks stands beside this.",
        fix="Mend what was first; where nothing else is found, read the server's log.",
        strength=share.value / LIMIT,
        evidence=given(share, rate),
    )


def _share(window: Window) -> float | None:
    """As the SLO's rules and the alert count: refusals of the client's own making are none."""
    bad = window.rate(REFUSED_5XX.name)
    return ratio(bad, total(first(window.rate, REQUESTS, canonical.REQUESTS), bad))
