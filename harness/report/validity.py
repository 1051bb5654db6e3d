"""Whether the numbers may be believed: each figure of the harness's own account, with a mark.

The marks here only colour the page; what makes a run invalid is decided by the findings and comes
in with the verdict. A figure that is not known is marked as such and never as good.
"""

from dataclasses import dataclass
from typing import Final, Literal

from harness.findings.rules import coalesced_stream, dispatch_lag
from harness.report import quantity
from harness.report.schema import Report, Validity

Mark = Literal["good", "doubt", "unknown", "plain"]
MARK_WORDS: Final[dict[Mark, str]] = {
    "good": "ok",
    "doubt": "doubt",
    "unknown": "not known",
    "plain": "no limit",
}
STAMP_WORDS: Final = {"kernel": "kernel", "tap": "network tap", "user": "user space"}

RATE_SHORTFALL_LIMIT: Final = 0.02
CPU_LIMIT: Final = 0.8
EXACT_LIMIT: Final = 0.99
RX_LAG_LIMIT_S: Final = 0.001


@dataclass(frozen=True)
class Check:
    """One tile of the validity row."""

    name: str
    value: str | None
    mark: Mark
    meaning: str


def checks(report: Report) -> list[Check]:
    """All tiles, in reading order."""
    validity = report.validity
    is_stamped = validity.stamps != "user"
    return [
        Check(
            "Receive stamps",
            STAMP_WORDS[validity.stamps],
            "good" if is_stamped else "doubt",
            "Arrival times come from the network stack: a busy client cannot move them."
            if is_stamped
            else "Arrival times are taken by the client program: its delays are in them.",
        ),
        Check(
            "Receive lag P99",
            _duration(validity.rx_lag_p99_s),
            _below(validity.rx_lag_p99_s, None if is_stamped else RX_LAG_LIMIT_S),
            "From arrival to the client reading it."
            + (" Stamps keep it out of the latencies." if is_stamped else " Limit 1 ms."),
        ),
        Check(
            "Dispatch lag P99",
            _duration(validity.dispatch_lag_p99_s),
            _below(validity.dispatch_lag_share_max, dispatch_lag.SAID),
            "From the planned to the real send; counted as latency."
            + _lag_words(validity.dispatch_lag_share_max),
        ),
        Check(
            "Read late",
            _share(validity.late_read_share),
            _below(validity.late_read_share, coalesced_stream.LIMIT),
            "Events read together with later ones: their own arrival time is a range.",
        ),
        Check(
            "Coalesced",
            _share(validity.coalesced_share),
            _below(validity.coalesced_share, coalesced_stream.LIMIT),
            "Events that came in one piece with another: the gap between them is not seen.",
        ),
        Check(
            "Sent rate of offered" if validity.offered_rps is not None else "Sent rate",
            _rates(validity),
            _rate_mark(validity),
            "Requests per second that were really sent, of those planned."
            if validity.offered_rps is not None
            else "Requests per second really sent; a closed loop plans none.",
        ),
        Check(
            "Client CPU",
            _share(validity.client_cpu_share),
            _below(validity.client_cpu_share, CPU_LIMIT),
            f"Share of one core the load process used. Limit {quantity.percent(CPU_LIMIT)}.",
        ),
        Check(
            "Clock steps",
            str(validity.clock_steps),
            "good" if validity.clock_steps == 0 else "doubt",
            "Times the machine's clock was set during the run.",
        ),
        Check(
            "Prompt length exact",
            _share(validity.prompt_length_exact_share),
            _above(validity.prompt_length_exact_share, EXACT_LIMIT),
            "Prompts that had just the number of tokens the plan asked for.",
        ),
        Check(
            "Output length exact",
            _share(validity.output_length_exact_share),
            _above(validity.output_length_exact_share, EXACT_LIMIT),
            "Answers that had just the number of tokens the plan asked for.",
        ),
    ]


def _below(value: float | None, limit: float | None) -> Mark:
    if value is None:
        return "unknown"
    return "good" if limit is None or value <= limit else "doubt"


def _above(value: float | None, limit: float) -> Mark:
    if value is None:
        return "unknown"
    return "good" if value >= limit else "doubt"


def _rate_mark(validity: Validity) -> Mark:
    if validity.sent_rps is None:
        return "unknown"
    if validity.offered_rps is None:
        return "plain"
    missing = validity.offered_rps - validity.sent_rps
    return "good" if missing <= RATE_SHORTFALL_LIMIT * validity.offered_rps else "doubt"


def _rates(validity: Validity) -> str | None:
    if validity.sent_rps is None:
        return None
    sent = quantity.number(validity.sent_rps)
    if validity.offered_rps is None:
        return f"{sent} /s"
    return f"{sent} of {quantity.number(validity.offered_rps)}"


def _duration(value: float | None) -> str | None:
    return None if value is None else quantity.duration(value)


def _share(value: float | None) -> str | None:
    return None if value is None else quantity.percent(value)


def _lag_words(share: float | None) -> str:
    if share is None:
        return ""
    limit = quantity.percent(dispatch_lag.SAID)
    return f" At most {quantity.percent(max(0.0, share))} of a cell's quantile; limit {limit}."
