"""Adapters for the two OpenAI dialects, chat and text completions, and what they share.

Requests always stream, always ask for usage, and send every sampling value explicitly, so that no
server default takes part. TTFT is the first event with non-empty text of any kind.
"""

import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from harness.base.api_key import hide_key
from harness.load.client import answer as answers
from harness.load.client import told
from harness.load.client.adapter import Ask, no_pause
from harness.load.client.answer import Answer
from harness.load.client.exchange import Exchange, HttpRequest, bounded
from harness.load.client.outcome import COMPLETIONS, FAILURES, Verdict, judge
from harness.load.client.sse import EventTooLarge, SseDecoder, SseEvent
from harness.load.client.steps import server_steps, with_steps
from harness.load.client.token_stamps import tokens_per_chunk
from harness.records.request import Outcome, RequestRecord
from harness.scenario import acceleration

ENCODINGS: Final = {"gzip": 47, "x-gzip": 47, "deflate": 47}
TAIL_BYTES: Final = 65536
ACCELERATED_PATH: Final = "accelerated"


class _OpenAi:
    """What both dialects share.

    Attributes:
        spelling: what this server calls a sampling field, where it has a name of its own.
        extra: fields sent with every request.
    """

    name = ""
    path = ""
    is_chat = False
    spelling: Mapping[str, str] = {}
    extra: Mapping[str, Any] = {}

    def __init__(self, *, omit: frozenset[str] = frozenset()) -> None:
        """`omit`: sampling fields that are not sent, since the target refuses them."""
        self._omit = omit

    def request(self, ask: Ask) -> HttpRequest:
        """The HTTP request for this ask."""
        headers = [("Content-Type", "application/json"), ("Accept", "text/event-stream")]
        if ask.accelerated is not None:
            headers.append(("X-MC-Accel", acceleration.header(ask.accelerated)))
        if ask.traceparent is not None:
            headers.append(("traceparent", ask.traceparent))
        if ask.api_key is not None:
            headers.append(("Authorization", f"Bearer {ask.api_key}"))
        return HttpRequest(
            path=self.path,
            headers=tuple(headers),
            body=json.dumps(self.body(ask), ensure_ascii=False).encode(),
            is_finished=self.is_finished,
        )

    def body(self, ask: Ask) -> dict[str, Any]:
        """The request body as plain JSON values."""
        body: dict[str, Any] = {
            "model": ask.model,
            **self._prompt(ask),
            "max_tokens": ask.max_tokens,
            "stream": True,
        }
        for name, value in self._fields(ask).items():
            if name not in self._omit:
                body[self.spelling.get(name, name)] = value
        return body

    def _fields(self, ask: Ask) -> dict[str, Any]:
        """What a target may refuse, under our names."""
        fields = {"stream_options": {"include_usage": True}, **ask.sampling, **self.extra}
        if ask.seed is not None:
            fields["seed"] = ask.seed
        if ask.ignore_eos:
            fields["ignore_eos"] = True
        if ask.cot_depth > 0:
            fields["cot_depth"] = ask.cot_depth
            fields["cot_step_tokens"] = ask.cot_step_tokens
        return fields

    def _prompt(self, ask: Ask) -> dict[str, Any]:
        raise NotImplementedError

    def is_finished(self, body: Sequence[bytes]) -> bool:
        """Whether a silent stream has said its last word: `[DONE]` or a finish reason."""
        decoder, answer = SseDecoder(), Answer()
        tail = b"".join(body)[-TAIL_BYTES:]
        try:
            for event in decoder.feed(tail, 0):
                answer.add(event.data, 0)
        except EventTooLarge:
            return False
        return answer.is_done or bool(answer.finish)

    def decode(
        self,
        exchange: Exchange,
        ask: Ask,
        *,
        keep_text: bool = False,
        pause: Callable[[], None] = no_pause,
    ) -> RequestRecord:
        """The record of this exchange, every doubt resolved as `docs/load.md` states."""
        answer = Answer(keep_text=keep_text)
        try:
            for event in _events(exchange, answer):
                answer.add(event.data, event.chunk)
                pause()
            verdict = judge(exchange, answer)
        except EventTooLarge as error:
            verdict = Verdict(Outcome.EVENT_TOO_LARGE, str(error))
        except zlib.error as error:
            verdict = Verdict(Outcome.PROTOCOL_ERROR, f"damaged compressed body: {error}")
        if verdict.error is not None:
            verdict = verdict._replace(error=hide_key(verdict.error, ask.api_key))
        _note_lengths(answer, ask)
        _note_path(exchange, answer, ask)
        return _record(exchange, answer, verdict)


class OpenAiChat(_OpenAi):
    """`/v1/chat/completions`: one user message; in a chain the conversation so far."""

    name = "openai-chat"
    path = "/v1/chat/completions"
    is_chat = True

    def _prompt(self, ask: Ask) -> dict[str, Any]:
        messages = [{"role": "user", "content": ask.prompt}]
        for answer, following in zip(ask.turns[::2], ask.turns[1::2], strict=True):
            messages.append({"role": "assistant", "content": answer})
            messages.append({"role": "user", "content": following.strip()})
        return {"messages": messages}


class OpenAiCompletions(_OpenAi):
    """`/v1/completions`: a bare prompt; in a chain with all that followed it."""

    name = "openai-completions"
    path = "/v1/completions"

    def _prompt(self, ask: Ask) -> dict[str, Any]:
        return {"prompt": ask.prompt + "".join(ask.turns)}


def _events(exchange: Exchange, answer: Answer) -> Iterator[SseEvent]:
    """Events of a 200 body, each with the index of the piece that completed it."""
    if exchange.status != 200:
        return
    kind = exchange.headers.get("content-type", "")
    if kind and not kind.lower().startswith("text/event-stream"):
        answer.anomalies["content_type"] += 1
    decoder = SseDecoder()
    for index, data in enumerate(_plain(exchange, answer)):
        yield from decoder.feed(data, index)
    for event in decoder.finish():
        answer.anomalies["unterminated_event"] += 1
        yield event
    if decoder.n_comments:
        answer.anomalies["comment"] = decoder.n_comments
    if decoder.n_empty:
        answer.anomalies["empty_event"] = decoder.n_empty


def _plain(exchange: Exchange, answer: Answer) -> Iterator[bytes]:
    """The body pieces, inflated where the server compressed against our wish."""
    encoding = exchange.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ENCODINGS:
        yield from (piece.data for piece in exchange.chunks)
        return
    answer.anomalies["content_encoding"] += 1
    inflate = zlib.decompressobj(ENCODINGS[encoding])
    for piece in exchange.chunks:
        yield inflate.decompress(piece.data)


def _note_lengths(answer: Answer, ask: Ask) -> None:
    """Oddities of length and ending that no outcome tells."""
    n = answers.n_output(answer.usage)
    reasons = set(answer.finish.values())
    if reasons - COMPLETIONS - FAILURES:
        answer.anomalies["unknown_finish_reason"] += 1
    if n is None:
        return
    if n > ask.max_output_tokens:
        answer.anomalies["over_max_tokens"] += 1
    elif n == ask.max_output_tokens and reasons and not reasons & {"length", "max_tokens"}:
        answer.anomalies["suspected_length"] += 1
    elif n < ask.max_output_tokens and ask.ignore_eos:
        answer.anomalies["short_of_max_tokens"] += 1
    n_hidden = answers.n_reasoning(answer.usage)
    if n_hidden and all(chunk.is_output for chunk in answer.chunks):
        answer.anomalies["hidden_reasoning"] += 1


def _note_path(exchange: Exchange, answer: Answer, ask: Ask) -> None:
    """Whether the answer says that another path, or other features, ran than were asked for."""
    if ask.accelerated is None or exchange.status != 200:
        return
    path = answer.timings.get("path") or exchange.headers.get("x-mc-path")
    if path is None:
        if ask.accelerated:
            answer.anomalies["path_unconfirmed"] += 1
    elif (path == ACCELERATED_PATH) != bool(ask.accelerated) or not _features_agree(answer, ask):
        answer.anomalies["path_mismatch"] += 1


def _features_agree(answer: Answer, ask: Ask) -> bool:
    """Whether the features that ran are those asked for; nothing to say where none are told."""
    told_features = answer.timings.get("features")
    if told_features is None or ask.accelerated is None:
        return True
    return acceleration.agrees(ask.accelerated, frozenset(told.names(told_features)))


def _record(exchange: Exchange, answer: Answer, verdict: Verdict) -> RequestRecord:
    pieces, chunks = exchange.chunks, answer.chunks
    total = answers.n_output(answer.usage)
    if total == 0 and chunks:
        total = None  # a server that reports zeros beside text has not counted
    counts = tokens_per_chunk([chunk.n_cumulative for chunk in chunks], total)
    if total is not None and total != len(chunks):
        name = "tokens_without_chunk" if total > len(chunks) else "chunks_without_token"
        answer.anomalies[name] = abs(total - len(chunks))
    chunk_ns = tuple(pieces[chunk.piece].rx_ns for chunk in chunks)
    n_thought = sum(n for n, chunk in zip(counts, chunks, strict=True) if not chunk.is_output)
    named_thought = answers.n_reasoning(answer.usage)
    token_ns = tuple(stamp for stamp, n in zip(chunk_ns, counts, strict=True) for _ in range(n))
    record = RequestRecord(
        outcome=verdict.outcome,
        error=verdict.error,
        intended_ns=exchange.started_ns,
        http_status=exchange.status,
        sent_ns=exchange.sent_ns,
        headers_ns=exchange.headers_ns,
        first_byte_ns=exchange.first_byte_ns,
        first_event_ns=None if answer.first_piece is None else pieces[answer.first_piece].rx_ns,
        first_token_ns=chunk_ns[0] if chunks else None,
        first_token_read_ns=pieces[chunks[0].piece].read_ns if chunks else None,
        first_output_ns=next(
            (stamp for stamp, chunk in zip(chunk_ns, chunks, strict=True) if chunk.is_output), None
        ),
        done_ns=exchange.done_ns,
        token_ns=token_ns,
        chunk_ns=chunk_ns,
        late_read=_late_reads(exchange, answer),
        rx_lag_ns=exchange.rx_lag_ns,
        n_prompt_tokens=answers.n_prompt(answer.usage),
        n_output_tokens=total if total is not None else (len(chunks) or None),
        n_reasoning_tokens=n_thought if named_thought is None and chunks else named_thought,
        count_source="usage" if total is not None else ("chunks" if chunks else None),
        finish_reason=tuple(bounded(reason) for _, reason in sorted(answer.finish.items())),
        text="".join(answer.text) if answer.keep_text else None,
        reasoning="".join(answer.reasoning) if answer.keep_text else None,
        tool_text="".join(answer.tool_text) if answer.keep_text else None,
        phases=told.seconds_map(answer.timings.get("phases")),
        ttft_phases=told.seconds_map(answer.timings.get("ttft_phases")),
        server_ttft_s=told.seconds(answer.timings.get("ttft_s")),
        server_e2e_s=told.seconds(answer.timings.get("wall_s")),
        n_evictions=told.whole(answer.timings.get("n_evictions")),
        features=told.names(answer.timings.get("features")),
        anomalies=dict(answer.anomalies),
        stamps=exchange.stamps,
    )  # fmt: skip
    return with_steps(record, server_steps(answer.timings, record))


def _late_reads(exchange: Exchange, answer: Answer) -> tuple[bool, ...]:
    """Per text chunk: read with another text chunk, or while more was waiting.

    Trailing events without text (usage, end mark) do not make the last token late.
    """
    pieces = exchange.chunks
    reads = [pieces[chunk.piece].read for chunk in answer.chunks]
    first_of_read: dict[int, bool] = {}
    for piece in pieces:
        first_of_read.setdefault(piece.read, piece.is_late)
    n = len(reads)
    return tuple(
        first_of_read[read]
        or (i > 0 and reads[i - 1] == read)
        or (i + 1 < n and reads[i + 1] == read)
        for i, read in enumerate(reads)
    )
