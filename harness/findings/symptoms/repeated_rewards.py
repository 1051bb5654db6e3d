"""The reward is computed again and again within a step, once a candidate or once a question.

Only seen where the program names the call (a range of NVTX, `torch.profiler.record_function`) and
the steps.
"""

import re
from typing import Final

import numpy as np
import pandas as pd

from harness.findings.device_work import covered_s, within_steps
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.findings.text import short

NAMES: Final = re.compile(r"reward|scor(e|ing)|judge|verif", re.IGNORECASE)
LEAST_CALLS: Final = 4
"""A step."""
LIMIT: Final = 0.1
"""Share of the time in such calls."""


def check(context: Context) -> Symptom | None:
    """The profile with the largest share of such calls."""
    found = (_look(file, events) for file, events in context.profiles.items())
    return max((each for each in found if each), key=lambda each: each.strength, default=None)


def _look(file: str, events: pd.DataFrame) -> Symptom | None:
    inside, time_s, n_steps = within_steps(events)
    spans = inside(events[events["category"] == "span"])
    calls = spans[spans["name"].map(lambda name: NAMES.search(name) is not None).astype(bool)]
    if n_steps is None or calls.empty:
        return None
    name, n = next(iter(calls["name"].value_counts().items()))
    calls = calls[calls["name"] == name]
    begins = calls["start_s"].to_numpy()
    share = covered_s(begins, begins + calls["duration_s"].to_numpy()) / time_s
    per_step = n / n_steps
    if per_step < LEAST_CALLS or share <= LIMIT:
        return None
    return Symptom(
        name="repeated_rewards",
        seen=(
            f"{file}: {short(str(name), 60)} is called {per_step:.3g} times a step and takes "
            f"{share:.0%} of the time, {float(np.median(calls['duration_s'])) * 1e3:.3g} ms a call"
        ),
        cause="the reward is computed candidate by candidate, or again for one already judged",
        fix=(
            "judge all candidates of a step in one batch, and keep the rewards of prefixes that "
            "did not change"
        ),
        strength=share / LIMIT,
        evidence=(
            Figure(what="share of the time in such calls", value=share, unit="share"),
            Figure(what="calls a step", value=per_step),
        ),
    )
