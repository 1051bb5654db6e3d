"""Processes of the server wait for a processor that others have."""

from typing import Final

from harness.findings.quantity import number, percent
from harness.findings.symptoms.measure import figure, given, has_grown, ratio
from harness.findings.symptoms.symptom import Context, Symptom
from harness.metrics.catalogue.process import (
    HOST_CORES,
    HOST_CPU,
    HOST_LOAD,
    PROCESS_CPU,
    PROCESS_SWITCHES,
)
from harness.metrics.window import Window

LIMIT_BUSY: Final = 0.9
LIMIT_SWITCHES: Final = 100.0
"""Times that a process loses its processor, each second that it computes."""
GROWN: Final = 1.5


def check(context: Context) -> Symptom | None:
    """Fires where the host is 90 % busy and its processes are often put aside for others."""
    busy = figure(context, "share of the host's processors that is busy", _busy, "share")
    aside = figure(context, "involuntary switches a processor second", _switches)
    if busy is None or aside is None or busy.value <= LIMIT_BUSY or aside.value <= LIMIT_SWITCHES:
        return None
    if not has_grown(aside, GROWN):
        return None
    load = figure(context, "processes that want to run, a core", _load)
    return Symptom(
        name="host_starved",
        seen=(
            f"The host is {percent(busy.value)} busy and its processes lose their processor "
            f"{number(aside.value)} times in each second that they compute."
        ),
        cause="More threads want to run than there are processors: a neighbour, or too many.",
        fix=(
            "Look who else runs (top); move it, or give the server cores of its own (taskset, a "
            "CPU limit that is not shared); fewer threads (--threads)."
        ),
        strength=aside.value / LIMIT_SWITCHES,
        evidence=given(aside, busy, load),
    )


def _busy(window: Window) -> float | None:
    idle, whole = window.rate(HOST_CPU.name, mode="idle"), window.rate(HOST_CPU.name)
    share = ratio(idle, whole)
    return None if share is None else 1 - share


def _switches(window: Window) -> float | None:
    switches = window.rate(PROCESS_SWITCHES.name, kind="involuntary")
    return ratio(switches, window.rate(PROCESS_CPU.name))


def _load(window: Window) -> float | None:
    return ratio(window.mean(HOST_LOAD.name), window.mean(HOST_CORES.name))
