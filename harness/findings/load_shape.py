"""The load of a time, from telemetry or from requests: what a replay is written from."""

from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd

from harness.findings.symptoms.measure import first, ratio, requests_per_s, sequences, total
from harness.metrics.catalogue import canonical
from harness.metrics.catalogue.server import (
    OUTPUT_TOKENS,
    PROMPT_TOKENS,
    REQUESTS,
    RUNNING,
    WAITING,
)
from harness.metrics.window import Window
from harness.scenario.replay import SeenLoad, fifths

NS: Final = 1e9


def load_of_window(window: Window, origin: str) -> SeenLoad:
    """Rate, lengths and number in flight by a server's own counters: means, no distribution."""
    rate = requests_per_s(window)
    done = first(window.rate, REQUESTS, canonical.REQUESTS)
    prompt = ratio(first(window.rate, PROMPT_TOKENS, canonical.PROMPT_TOKENS), done)
    output = ratio(first(window.rate, OUTPUT_TOKENS, canonical.OUTPUT_TOKENS), done)
    in_flight = total(
        sequences(window, RUNNING, canonical.RUNNING), sequences(window, WAITING, canonical.WAITING)
    )
    seconds = window.end_s - window.start_s
    return SeenLoad(
        origin=origin,
        rate_rps=rate or None,
        concurrency=max(1, round(in_flight)) if in_flight is not None else None,
        n_requests=round(rate * seconds) if rate else None,
        prompt_tokens=(max(1, round(prompt)),) if prompt else (),
        output_tokens=max(1, round(output)) if output else None,
        notes=("lengths are means: counters tell no distribution",) if prompt else (),
    )


def load_of_rows(rows: pd.DataFrame, seconds: float, load: SeenLoad) -> SeenLoad:
    """The same with what single requests tell: five prompt lengths, the spread of the answers."""
    prompts, outputs = (
        rows[name].dropna().to_numpy(dtype=float) for name in ("n_prompt_tokens", "n_output_tokens")
    )
    if not len(rows) or not prompts.size or not outputs.size or seconds <= 0:
        return load
    low, high = np.quantile(outputs, (0.1, 0.9))
    return replace(
        load,
        rate_rps=len(rows) / seconds,
        n_requests=len(rows),
        prompt_tokens=fifths(prompts.tolist()),
        output_tokens=max(1, round(float(outputs.mean()))),
        output_spread=round(float(high - low) / 2),
        notes=(),
    )
