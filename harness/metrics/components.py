"""The additive split of a latency: the server's phases plus what the client saw beyond them.

Server phases come with the answer. `other` is server time that its phases do not name, `network`
the client's time from the real send minus the server's own account, `client` the delay before the
send and before each further call of a chain, `think` the planned pauses between those. Nothing is
left out: a row's components add up to its latency.
"""

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.metrics.latency import dispatch_lag_s, service_e2e_s, service_ttft_s
from harness.metrics.phases import COMPONENTS, SERVER_PHASES
from harness.metrics.steps import call_lag_s, think_s

Matrix = NDArray[np.float64]
Values = NDArray[np.float64]
Part = Literal["first_token", "whole", "decode"]

COMPONENT_NAMES: Final[tuple[str, ...]] = tuple(COMPONENTS)

PART_OF: Final[Mapping[str, Part]] = {
    "ttft_s": "first_token",
    "service_ttft_s": "first_token",
    "e2e_s": "whole",
    "service_e2e_s": "whole",
    "tpot_s": "decode",
    "itl_s": "decode",
}


def component_matrix(rows: pd.DataFrame, metric: str) -> Matrix | None:
    """Seconds per component of each request; rows without the server's account are all NaN.

    None for a metric that the server's account does not split (TTFO).

    Shapes:
        returns (n_requests, n_components), columns in the order of `COMPONENT_NAMES`.
    """
    part = PART_OF.get(metric)
    if part is None:
        return None
    if part == "decode":
        return _whole(rows) - _first_token(rows)
    matrix = _first_token(rows) if part == "first_token" else _whole(rows)
    if metric.startswith("service_"):
        matrix[:, COMPONENT_NAMES.index("client")] -= dispatch_lag_s(rows)
    return matrix


def _first_token(rows: pd.DataFrame) -> Matrix:
    nothing = np.zeros(len(rows))
    return _matrix(rows, "ttft_phases", "server_ttft_s", service_ttft_s(rows), nothing, nothing)


def _whole(rows: pd.DataFrame) -> Matrix:
    return _matrix(
        rows, "phases", "server_e2e_s", service_e2e_s(rows), call_lag_s(rows), think_s(rows)
    )


def _matrix(
    rows: pd.DataFrame,
    column: str,
    server_column: str,
    seen: Values,
    between: Values,
    think: Values,
) -> Matrix:
    server = rows[server_column].to_numpy(dtype=float, na_value=np.nan)
    named = np.array(
        [[phases.get(name, 0.0) for name in SERVER_PHASES] for phases in rows[column]], dtype=float
    ).reshape(len(rows), len(SERVER_PHASES))
    other = server - named.sum(axis=1)
    network = seen - server - between - think
    matrix = np.column_stack([named, other, network, dispatch_lag_s(rows) + between, think])
    matrix[rows[column].map(len).to_numpy() == 0] = np.nan
    return matrix
