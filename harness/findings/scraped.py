"""What must be doubted of scraped telemetry: sources that were away, and series that cannot be.

Each function looks at one source and answers a sentence, or None in health. Endpoints lie in known
ways (several processes that answer in turn, totals added again at each scrape, zeros for a model
that works), and none of these may pass for a finding about the server.
"""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Final

import numpy as np

from harness.metrics.catalogue import canonical, gpu
from harness.metrics.catalogue.telemetry import LEFT_OUT, MISSING, SCRAPE_ERROR
from harness.metrics.window import Telemetry

MIN_RESETS: Final = 3
"""A server restarts once or twice; more often, several processes answer in turn."""
MIN_IDLE_GROWTHS: Final = 2
MIN_REQUESTS: Final = 10
SHOWN: Final = 3

_LINKS: Final = (
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_PROF_NVLINK_TX_BYTES",
    "DCGM_FI_PROF_NVLINK_RX_BYTES", gpu.NVLINK_BYTES.name,
)  # fmt: skip
_BUSY: Final = ("DCGM_FI_DEV_GPU_UTIL", gpu.GPU_UTILISATION.name)
_STARTS: Final = "process_start_time_seconds"
_TOTALS: Final = (canonical.PROMPT_TOKENS, canonical.OUTPUT_TOKENS, canonical.REQUESTS)

Check = Callable[[Telemetry], str | None]
"""Looks at the telemetry of one source."""


def doubts_of(telemetry: Telemetry, n_starts: int = 1) -> list[str]:
    """Everything that must be doubted, source by source; `n_starts`: of the target by us."""
    parts = [telemetry.of_source(source) for source in telemetry.sources]
    checks: list[Check] = [*CHECKS, partial(flapping, n_starts=n_starts)]
    return [
        f"metrics of {part.sources[0]}: {text}"
        for part in parts
        for check in checks
        if (text := check(part)) is not None
    ]


def outages(telemetry: Telemetry) -> str | None:
    """Never answered, or away for some time: when, how long and why."""
    scrapes = telemetry.up(telemetry.sources[0])
    reasons = [str(each.labels.get("reason")) for each in telemetry.series(SCRAPE_ERROR.name)]
    why = "; ".join(reasons[:SHOWN])
    if not any(is_up for _, is_up in scrapes):
        return f"none ({why}); what it says of itself is not in this report"
    spans = list(_away(scrapes))
    if not spans:
        return None
    told = [f"from {_time(start)} for {end - start:.0f} s" for start, end in spans[:SHOWN]]
    more = f" and {len(spans) - SHOWN} times more" if len(spans) > SHOWN else ""
    return f"away {', '.join(told)}{more} ({why}); nothing is known of it then"


def restarts(telemetry: Telemetry) -> str | None:
    """Its process began anew: a start time moved on, and counters started at zero again."""
    created = [name for name in telemetry.names if telemetry.kind(name) == "created"]
    for name in (_STARTS, *created):
        for each in telemetry.series(name):
            known = ~np.isnan(each.held)
            moved = np.diff(each.held[known])
            if np.any(moved > 0) and not np.any(moved < 0):  # back and forth: several processes
                times = [_time(float(at)) for at in each.times[known][1:][moved > 0]]
                return f"its process began anew, seen at {', '.join(times[:SHOWN])}"
    return None


def flapping(telemetry: Telemetry, n_starts: int = 1) -> str | None:
    """Counters that go back again and again: several processes answer in turn."""
    least = MIN_RESETS + n_starts - 1
    found = [
        (int(np.sum(np.diff(each.held[~np.isnan(each.held)]) < 0)), name)
        for name in telemetry.names
        if telemetry.kind(name) == "counter" and not name.startswith("llm:")
        for each in telemetry.series(name)
    ]
    n_resets, name = max(found, default=(0, ""))
    if n_resets < least:
        return None
    n_counters = len({name for n, name in found if n >= least})
    return (
        f"{name} went back {n_resets} times, {n_counters} counters at least {least} times: "
        "several processes seem to answer in turn (a multi-process mode that is off); no rate of "
        "it means anything"
    )


def grows_idle(telemetry: Telemetry) -> str | None:
    """Totals that rise at scrape after scrape while no request was ever seen."""
    window = telemetry.window()
    if [window.maximum(metric.name) for metric in (canonical.RUNNING, canonical.WAITING)] != [0, 0]:
        return None
    for metric in _TOTALS:
        growths = [np.diff(each.growth()) > 0 for each in telemetry.series(metric.name)]
        if max((int(np.sum(grown)) for grown in growths), default=0) >= MIN_IDLE_GROWTHS:
            return (
                f"{metric.name} grows though no request was seen running or waiting: a total that "
                "is added again at each scrape, or another client's short requests"
            )
    return None


def dead_links(telemetry: Telemetry) -> str | None:
    """NVLink traffic of exactly zero on busy GPUs is more likely not counted than not there."""
    window = telemetry.window()
    uses = [use for name in _BUSY if (use := window.maximum(name)) is not None]
    highest = [(name, window.maximum(name)) for name in _LINKS]
    zeros = [name for name, value in highest if value == 0]
    if not zeros or max(uses, default=0) <= 0 or any(value for _, value in highest):
        return None
    return f"{zeros[0]} is 0 throughout on busy GPUs: NVLink is idle, or it is not counted here"


def incomplete(telemetry: Telemetry) -> str | None:
    """Quantities that this kind of server tells and this one did not."""
    absent = sorted({each.labels["quantity"] for each in telemetry.series(MISSING.name)})
    return f"without {', '.join(absent)}, which such servers have" if absent else None


def left_out(telemetry: Telemetry) -> str | None:
    """Series beyond what is kept of one source."""
    n = telemetry.window().maximum(LEFT_OUT.name)
    return f"{n:.0f} series are beyond what is kept of one source" if n else None


CHECKS: Final[tuple[Check, ...]] = (
    outages, restarts, dead_links, incomplete, left_out,
)  # fmt: skip


def zero_under_load(telemetry: Telemetry, n_ok: int) -> str | None:
    """A target whose totals stayed at zero while it answered requests tells nothing of them."""
    window = telemetry.window()
    grown = [window.increase(metric.name) for metric in _TOTALS]
    told = [value for value in grown if value is not None]
    if n_ok < MIN_REQUESTS or not told or any(told):
        return None
    return (
        f"all its totals stayed where they were while {n_ok} requests were answered: they are of "
        "another model or process"
    )


def _away(scrapes: list[tuple[float, bool]]) -> Iterator[tuple[float, float]]:
    """From the first failed scrape to the next answer, or to the last scrape."""
    began = math.nan
    for time, is_up in scrapes:
        if not is_up and math.isnan(began):
            began = time
        elif is_up and not math.isnan(began):
            yield began, time
            began = math.nan
    if began < scrapes[-1][0]:  # one miss at the very end: it was stopped with what asked it
        yield began, scrapes[-1][0]


def _time(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%H:%M:%S UTC")
