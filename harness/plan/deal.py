"""Deals a plan over several load processes: each sends its own share of every segment.

Open loop: request i of a segment is sent by process i mod W. Closed loop: request i belongs to user
i mod C of the segment's C users, and user u lives in process u mod W, so that every process has as
much to send as it has users. A process beyond the users there are gets empty segments.
"""

from dataclasses import dataclass, replace

from harness.plan.plan import Cell, Plan, PlannedRequest, Segment


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """Which part of a plan one process sends.

    Attributes:
        number: this process, from 0.
        of: processes there are.
    """

    number: int = 0
    of: int = 1

    def n_users(self, n: int) -> int:
        """How many of `n` users live in this process."""
        return len(range(self.number, n, self.of))


def deal(plan: Plan, share: Share, n_open_users: int) -> Plan:
    """The part of `plan` that one process sends; `n_open_users` is the open loop's pool.

    Requests keep their indices and times, closed cells keep the concurrency of their part.
    """
    cells = {cell.id: cell for cell in plan.cells}
    return replace(
        plan,
        cells=tuple(_cell_part(cell, share) for cell in plan.cells),
        segments=tuple(
            _segment_part(segment, cells[segment.cell], share, n_open_users)
            for segment in plan.segments
        ),
    )


def _cell_part(cell: Cell, share: Share) -> Cell:
    if cell.concurrency is None:
        return cell
    return replace(cell, concurrency=share.n_users(cell.concurrency))


def _segment_part(segment: Segment, cell: Cell, share: Share, n_open_users: int) -> Segment:
    mine = tuple(
        request
        for request in segment.requests
        if _owner(request, cell, share, n_open_users) == share.number
    )
    return replace(segment, requests=mine, n_warmup=sum(request.is_warmup for request in mine))


def _owner(request: PlannedRequest, cell: Cell, share: Share, n_open_users: int) -> int:
    """The process that sends this request."""
    if cell.concurrency is None:
        return request.index % min(share.of, n_open_users)
    return request.index % cell.concurrency % share.of
