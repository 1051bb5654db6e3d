"""A scripted OpenAI-style server that records when it really sent each token.

Runs as its own process: `python truth_server.py --ttft-ms 20 --gap-ms 5`. Prints its port, serves
`/v1/models`, `/tokenize`, both completion routes as streams, and `GET /log`: one entry per request
with arrival and true send times on CLOCK_MONOTONIC, just before each write. A token is a word.
"""

import argparse
import asyncio
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any

TEMPLATE_TOKENS = 4
"""What a chat message costs beside its words."""


@dataclass
class Entry:
    """What the server knows about one request."""

    seed: int
    n_prompt: int
    arrival_ns: int
    body: dict[str, Any]
    headers: dict[str, str]
    token_ns: list[int] = field(default_factory=list)
    done_ns: int = 0


class TruthServer:
    """Serves by its options and remembers everything."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.log: list[Entry] = []

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer requests until the client leaves."""
        try:
            while head := await _read_head(reader):
                body = await reader.readexactly(int(head.get("content-length", "0")))
                await self._answer(head, body, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(
        self, head: dict[str, str], body: bytes, writer: asyncio.StreamWriter
    ) -> None:
        route = head["route"]
        if route == "GET /v1/models":
            _send_json(writer, 200, {"object": "list", "data": [{"id": "truth"}]})
        elif route == "GET /log":
            _send_json(writer, 200, [asdict(entry) for entry in self.log])
        elif route == "POST /tokenize" and not self.options.no_tokenize:
            _send_json(writer, 200, _tokenize(json.loads(body)))
        elif route == "POST /v1/infer":
            self.log.append(Entry(0, 0, time.monotonic_ns(), json.loads(body), head))
            _send_json(writer, 200, {"text": "w0"})
        elif route in {"POST /v1/chat/completions", "POST /v1/completions"}:
            await self._complete(head, json.loads(body), writer)
        else:
            _send_json(writer, 404, {"error": {"message": f"no route {route}"}})
        await writer.drain()

    async def _complete(
        self, head: dict[str, str], body: dict[str, Any], writer: asyncio.StreamWriter
    ) -> None:
        is_chat = "messages" in body
        messages = body["messages"] if is_chat else [{"content": body["prompt"]}]
        n_prompt = sum(len(message["content"].split()) for message in messages)
        n_prompt += TEMPLATE_TOKENS if is_chat else 0
        entry = Entry(body.get("seed", 0), n_prompt, time.monotonic_ns(), body, head)
        self.log.append(entry)
        number = len(self.log)
        if number == self.options.freeze_at:
            time.sleep(self.options.freeze_s)  # noqa: ASYNC251  the whole server stands still
        if self.options.fail_every and number % self.options.fail_every == 0:
            status = self.options.fail_status
            _send_json(writer, status, {"error": {"message": "planted", "code": status}})
            return
        await self._stream(entry, body["max_tokens"], writer, is_chat=is_chat)

    async def _stream(
        self, entry: Entry, n_tokens: int, writer: asyncio.StreamWriter, *, is_chat: bool
    ) -> None:
        options = self.options
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        due = entry.arrival_ns / 1e9 + options.ttft_ms / 1e3
        for i in range(n_tokens):
            await asyncio.sleep(max(0.0, due + i * options.gap_ms / 1e3 - time.monotonic()))
            data = _chunk(_event(_choice(f"w{i} ", is_chat=is_chat)))
            entry.token_ns.append(time.monotonic_ns())
            writer.write(data)
        usage = {"prompt_tokens": entry.n_prompt, "completion_tokens": n_tokens}
        last = _event(_choice("", "length", is_chat=is_chat))
        last += _event({"choices": [], "usage": usage}) + b"data: [DONE]\n\n"
        entry.done_ns = time.monotonic_ns()
        writer.write(_chunk(last) + b"0\r\n\r\n")


async def _read_head(reader: asyncio.StreamReader) -> dict[str, str]:
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return {}
    first, *lines = raw.decode("latin-1").split("\r\n")[:-2]
    fields = dict(line.split(": ", 1) for line in lines)
    return {"route": " ".join(first.split()[:2]), **{k.lower(): v for k, v in fields.items()}}


def _choice(text: str, finish: str | None = None, *, is_chat: bool) -> dict[str, Any]:
    content = {"delta": {"content": text}} if is_chat else {"text": text}
    return {"choices": [{"index": 0, **content, "finish_reason": finish}]}


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _tokenize(body: dict[str, Any]) -> dict[str, Any]:
    if "prompts" in body:
        return {"counts": [len(text.split()) for text in body["prompts"]]}
    if "messages" in body:
        return {"count": len(body["messages"][0]["content"].split()) + TEMPLATE_TOKENS}
    return {"count": len(body["prompt"].split())}


def _send_json(writer: asyncio.StreamWriter, status: int, value: Any) -> None:
    data = json.dumps(value).encode()
    writer.write(
        b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"
        % (status, len(data), data)
    )


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ttft-ms", type=float, default=5.0)
    parser.add_argument("--gap-ms", type=float, default=1.0)
    parser.add_argument("--fail-every", type=int, default=0)
    parser.add_argument("--fail-status", type=int, default=500)
    parser.add_argument("--freeze-at", type=int, default=0)
    parser.add_argument("--freeze-s", type=float, default=0.0)
    parser.add_argument("--no-tokenize", action="store_true")
    truth = TruthServer(parser.parse_args())
    server = await asyncio.start_server(truth.serve_connection, "127.0.0.1", 0, limit=1 << 24)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
