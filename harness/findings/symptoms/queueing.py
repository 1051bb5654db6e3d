"""More is offered than the server takes in: sequences wait for a place."""

from typing import Final

from harness.findings.quantity import number
from harness.findings.symptoms.measure import figure, given, has_grown, sequences
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.server import RUNNING, WAITING
from harness.metrics.window import Window

LIMIT: Final = 1.0
"""Waiting sequences for each running one, on average over the time."""
GROWN: Final = 1.5


def check(context: Context) -> Symptom | None:
    """Fires where more sequences wait than run, and more than usual."""
    waiting = figure(context, "sequences that wait, on average", _waiting)
    running = figure(context, "sequences that run, on average", _running)
    if waiting is None or running is None or waiting.value <= LIMIT * max(running.value, 1.0):
        return None
    if not has_grown(waiting, GROWN):
        return None
    return Symptom(
        name="queueing",
        seen=f"{number(waiting.value)} sequences wait while {number(running.value)} run.",
        cause="Requests come faster than they are served: more load, or a slower server.",
        fix=(
            "Where nothing else is found: fewer requests, more servers, or a larger batch "
            "(--max-num-seqs) if memory allows. Refuse early rather than queue without end."
        ),
        strength=waiting.value / (LIMIT * max(running.value, 1.0)),
        evidence=given(waiting, running),
    )


def _waiting(window: Window) -> float | None:
    return sequences(window, WAITING, canonical.WAITING)


def _running(window: Window) -> float | None:
    return sequences(window, RUNNING, canonical.RUNNING)
