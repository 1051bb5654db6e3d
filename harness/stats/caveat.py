"""A doubt, as data: what limits a result, in one sentence with numbers.

Estimators never hide a doubt in a silent NaN or a made-up bound. They return their result together
with caveats, and the reader of a report sees the sentence.
"""

from dataclasses import dataclass
from enum import StrEnum


class CaveatKind(StrEnum):
    """What kind of doubt it is; the sentence beside it carries the numbers."""

    TOO_FEW_SAMPLES = "too_few_samples"
    AUTOCORRELATED = "autocorrelated"
    TIES = "ties"
    NONSTATIONARY = "nonstationary"
    ONE_START = "one_start"
    STARTS_DISAGREE = "starts_disagree"
    CENSORED = "censored"
    OPEN_BOUND = "open_bound"
    NOT_LOCALISED = "not_localised"
    AT_EDGE = "at_edge"
    SMALL_GRID = "small_grid"
    LONE_CELL = "lone_cell"
    OVERDISPERSED = "overdispersed"
    AMBIGUOUS_KIND = "ambiguous_kind"
    NULL_LEFT_OUT = "null_left_out"
    UNEXPLAINED = "unexplained"
    NO_CHANGE = "no_change"
    SHIFTED_AXIS = "shifted_axis"


@dataclass(frozen=True)
class Caveat:
    """One doubt about one result.

    Attributes:
        kind: the class of doubt, for filters and rules.
        text: one sentence with the numbers behind it.
    """

    kind: CaveatKind
    text: str
