"""The plan: cells, segments and every intended send, as plain frozen types.

Segments never overlap and are run in `Plan.segments` order; a segment's requests are sent in index
order, the first `n_warmup` of them cut from analysis.
"""

from dataclasses import dataclass
from typing import Any

from harness.scenario.acceleration import Asked

Factor = float | int | bool | str


@dataclass(frozen=True, kw_only=True, slots=True)
class Cell:
    """One combination of factors.

    Attributes:
        id: short stable name, such as `c03`.
        factors: axis name to value, in axis order, given axes only.
        prompt_tokens: prompt length asked, in the target's tokens, template included.
        cot_depth: reasoning steps.
        cot_step_tokens: tokens per reasoning step.
        cot_mode: who runs the steps: the `server` in one call, or a `chained` call for each.
        accelerated: whether the accelerated path is asked for, or with which features.
        concurrency: requests in flight (closed loop), or None.
        rate_rps: offered rate (open loop), or None.
        sampling: sampling fields sent with each request.
    """

    id: str
    factors: dict[str, Factor]
    prompt_tokens: int
    cot_depth: int
    cot_step_tokens: int
    accelerated: Asked
    concurrency: int | None
    rate_rps: float | None
    sampling: dict[str, Any]
    cot_mode: str = "server"

    @property
    def n_calls(self) -> int:
        """Calls that one request makes."""
        return 1 + self.cot_depth if self.cot_mode == "chained" else 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedRequest:
    """One intended send.

    Attributes:
        index: position in its segment.
        is_warmup: sent to fill the pipe, not analysed.
        offset_ns: intended send after the segment's start; None in a closed loop, where the
            completion of the user's previous request decides.
        prompt_seed: names the prompt's text: no two requests of a plan share one.
        max_tokens: answer tokens asked (reasoning steps excluded).
        sampling_seed: the request's `seed` field.
    """

    index: int
    is_warmup: bool
    offset_ns: int | None
    prompt_seed: int
    max_tokens: int
    sampling_seed: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Segment:
    """A slice of the run spent on one cell."""

    id: str
    cell: str
    repeat: int
    n_warmup: int
    requests: tuple[PlannedRequest, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything that is intended, before anything is sent."""

    scenario: str
    seed: int
    cells: tuple[Cell, ...]
    segments: tuple[Segment, ...]

    def cell(self, cell_id: str) -> Cell:
        """The cell with this id.

        Raises:
            KeyError: no such cell.
        """
        for cell in self.cells:
            if cell.id == cell_id:
                return cell
        raise KeyError(cell_id)

    @property
    def n_requests(self) -> int:
        """Requests in all segments, warm-up included."""
        return sum(len(segment.requests) for segment in self.segments)

    @property
    def n_measured(self) -> int:
        """Requests in all segments that are not warm-up."""
        return self.n_requests - sum(segment.n_warmup for segment in self.segments)
