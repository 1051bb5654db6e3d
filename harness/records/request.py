"""One request as it was measured: the row every later stage is a fold over.

Stamps are integer nanoseconds on the run's monotonic clock; what did not happen is None, never 0.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How a request ended, by what the client saw."""

    OK = "ok"
    OK_LENGTH = "ok_length"
    OK_NO_DONE = "ok_no_done"
    OK_NO_FINISH = "ok_no_finish"
    TRUNCATED = "truncated"
    IN_STREAM_ERROR = "in_stream_error"
    REJECTED = "rejected"
    RESET = "reset"
    IDLE_TIMEOUT = "idle_timeout"
    TOTAL_TIMEOUT = "total_timeout"
    CONNECT_ERROR = "connect_error"
    TLS_ERROR = "tls_error"
    HTTP_ERROR = "http_error"
    PROTOCOL_ERROR = "protocol_error"
    EVENT_TOO_LARGE = "event_too_large"
    EMPTY_SUCCESS = "empty_success"
    CANCELLED = "cancelled"

    @property
    def is_ok(self) -> bool:
        """Whether the answer came whole and its latency may be analysed."""
        return self.value.startswith("ok")


class Stamps(StrEnum):
    """Where receive times come from: the operating system's stamp, or our own read."""

    KERNEL = "kernel"
    USER = "user"
    TAP = "tap"


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestRecord:
    """What is known about one request.

    Attributes:
        cell: id of the grid cell; empty outside a run (probe).
        segment: id of the plan's segment.
        index: position of the request inside its segment; below 0 for a warm-up request that the
            plan does not hold: a broken segment was warmed up again.
        session: which start of the run's load sent it, from 1; sessions do not share a clock.
        is_warmup: sent before the segment counts (start burst); kept, not analysed.
        worker: the load process that sent it, from 0.
        outcome: how it ended.
        http_status: status code, None when no response head came.
        error: bounded text of what went wrong, None when nothing did.
        intended_ns: when the plan wanted it sent; latencies count from here.
        sent_ns: just before the last byte of the request was handed to the operating system.
        headers_ns: when the response head was complete.
        first_byte_ns: receive stamp of the first response byte.
        first_event_ns: receive stamp of the first SSE event, whatever it held.
        first_token_ns: first chunk with non-empty content, reasoning or tool text.
        first_token_read_ns: when our process read it; equal to the stamp without kernel stamps.
        first_output_ns: first chunk with non-reasoning text (TTFO).
        done_ns: receive stamp of the last byte.
        token_ns: receive stamp per token; k tokens in one chunk share its stamp.
        chunk_ns: receive stamp per chunk that carried text.
        late_read: per chunk, whether it was read together with others, so its stamp is only an
            upper bound.
        rx_lag_ns: largest user-space read time minus receive stamp; None without kernel stamps.
        n_prompt_tokens: prompt length by `count_source`.
        n_output_tokens: output tokens (reasoning included) by `count_source`.
        n_reasoning_tokens: reasoning part of the output.
        count_source: `usage`, `tokenizer` or `chunks`.
        finish_reason: one per choice.
        text: answer text; None in a run's store, which keeps no text.
        reasoning: reasoning text; None in a run's store.
        tool_text: tool-call arguments; None in a run's store.
        phases: the server's own account of the whole request, seconds by phase.
        ttft_phases: the same account up to the first token.
        server_ttft_s: the server's arrival-to-first-token time.
        server_e2e_s: the server's arrival-to-last-token time.
        n_evictions: how often the server evicted and recomputed the sequence.
        step_start_ns: when each reasoning step began, the answer last: the intended send of a
            chain's call, or the last token of the step before; empty without steps.
        step_sent_ns: real send of each step's call; its start where nothing was sent.
        step_first_ns: first token of each step, None where none came.
        step_done_ns: end of each step, None where it did not end.
        step_tokens: output tokens of each step, None where nobody counted.
        step_kv_tokens: context length after each step, None where nobody counted.
        features: accelerated features that the answer says ran.
        anomalies: counted oddities of the stream, by name.
        stamps: source of the receive stamps.
    """

    outcome: Outcome
    intended_ns: int
    cell: str = ""
    segment: str = ""
    index: int = 0
    session: int = 1
    is_warmup: bool = False
    worker: int = 0
    http_status: int | None = None
    error: str | None = None
    sent_ns: int | None = None
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    first_event_ns: int | None = None
    first_token_ns: int | None = None
    first_token_read_ns: int | None = None
    first_output_ns: int | None = None
    done_ns: int | None = None
    token_ns: tuple[int, ...] = ()
    chunk_ns: tuple[int, ...] = ()
    late_read: tuple[bool, ...] = ()
    rx_lag_ns: int | None = None
    n_prompt_tokens: int | None = None
    n_output_tokens: int | None = None
    n_reasoning_tokens: int | None = None
    count_source: str | None = None
    finish_reason: tuple[str, ...] = ()
    text: str | None = None
    reasoning: str | None = None
    tool_text: str | None = None
    phases: dict[str, float] = field(default_factory=dict)
    ttft_phases: dict[str, float] = field(default_factory=dict)
    server_ttft_s: float | None = None
    server_e2e_s: float | None = None
    n_evictions: int | None = None
    step_start_ns: tuple[int, ...] = ()
    step_sent_ns: tuple[int | None, ...] = ()
    step_first_ns: tuple[int | None, ...] = ()
    step_done_ns: tuple[int | None, ...] = ()
    step_tokens: tuple[int | None, ...] = ()
    step_kv_tokens: tuple[int | None, ...] = ()
    features: tuple[str, ...] = ()
    anomalies: dict[str, int] = field(default_factory=dict)
    stamps: Stamps = Stamps.USER
