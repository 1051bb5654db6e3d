"""Command lines of `hey` and `wrk`, read as the load that they would make.

Read and never run. Keys, passwords and cookies on the line are not taken over. A body gives the
model, the prompt's length (by characters: nobody has its tokenizer here) and the answer's.
"""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from harness.base.errors import SetupError
from harness.scenario.replay import SeenLoad
from harness.scenario.schema import Api

MAX_LENGTH: Final = 200_000
CHARACTERS_A_TOKEN: Final = 4.0
HEY_VALUES: Final = frozenset("nqczomHtAdDTaxuU") | {"host", "cpus"}
WRK_VALUES: Final = {
    "c": "c", "connections": "c", "d": "d", "duration": "d", "t": "t", "threads": "t",
    "s": "s", "script": "s", "H": "H", "header": "H", "timeout": "timeout", "R": "R", "rate": "R",
}  # fmt: skip
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_PARTS: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)", re.ASCII)
_ENDPOINTS: Final[tuple[tuple[str, Api], ...]] = (
    ("/v1/chat/completions", "openai-chat"),
    ("/v1/completions", "openai-completions"),
)


def read_command(line: str) -> SeenLoad:
    """The load of a `hey` or `wrk` command line.

    Raises:
        SetupError: another program, an unknown option, or a value that cannot be read.
    """
    if len(line) > MAX_LENGTH:
        raise SetupError(f"the command line is longer than {MAX_LENGTH:,} characters")
    try:
        words = shlex.split(line)
    except ValueError as error:
        raise SetupError(f"the command line cannot be split into words: {error}") from error
    program = words[0].rpartition("/")[2] if words else ""
    if program == "hey":
        return _hey(*_options(words[1:], {name: name for name in HEY_VALUES}, "hey"))
    if program in {"wrk", "wrk2"}:
        return _wrk(*_options(words[1:], WRK_VALUES, program))
    raise SetupError(f"got a command line of {program[:40]!r}, allowed are hey and wrk")


def _options(
    words: Sequence[str], values: Mapping[str, str], program: str
) -> tuple[dict[str, str], str]:
    """Options by their short names, and the URL; an option without a value is an empty text."""
    found: dict[str, str] = {}
    urls: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("-") or word == "-":
            urls.append(word)
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if program != "hey" and not word.startswith("--") and len(name) > 1:
            name, equals, value = name[0], "=", word[2:]  # wrk's -c10; hey has words of one dash
        if name not in values:
            found[name] = ""
        else:
            found[values[name]] = value if equals else next(rest, "")
    if len(urls) != 1:
        raise SetupError(
            f"got {len(urls)} URLs on the command line of {program}, allowed is one"
            + (f": {', '.join(url[:60] for url in urls[:4])}" if urls else "")
        )
    return found, urls[0]


def _hey(options: Mapping[str, str], url: str) -> SeenLoad:
    workers = _whole(options.get("c", "50"), "-c")
    per_worker = _number(options["q"], "-q") if "q" in options else None
    rate = per_worker * workers if per_worker else None
    seconds = _seconds(options["z"], "-z") if "z" in options else None
    n = _whole(options.get("n", "200"), "-n") if seconds is None else None
    if seconds is not None and rate:
        n = round(rate * seconds)
    body, notes = _body(options)
    if rate is None:
        notes += ("hey -c without -q is a closed loop: each worker waits for its answer",)
    return _seen("hey", url, body, notes, rate=rate, concurrency=workers, n=n)


def _wrk(options: Mapping[str, str], url: str) -> SeenLoad:
    connections = _whole(options.get("c", "10"), "-c")
    rate = _number(options["R"], "-R") if "R" in options else None
    n = round(rate * _seconds(options.get("d", "10s"), "-d")) if rate else None
    notes: tuple[str, ...] = ()
    if not rate:
        notes = ("wrk is a closed loop: each connection waits for its answer",)
    if "s" in options:
        notes += ("what its Lua script sends cannot be known from the command line",)
    return _seen("wrk", url, {}, notes, rate=rate, concurrency=connections, n=n)


def _seen(
    program: str,
    url: str,
    body: Mapping[str, Any],
    notes: tuple[str, ...],
    *,
    rate: float | None,
    concurrency: int,
    n: int | None,
) -> SeenLoad:
    target, api = _target(url)
    prompt, asked = _prompt_tokens(body), body.get("max_tokens", body.get("max_completion_tokens"))
    if prompt is None:
        prompt, notes = 128, (*notes, "no prompt on the line: 128 tokens are a guess")
    else:
        notes = (*notes, "prompt length by four characters a token: an estimate")
    if not isinstance(asked, int) or isinstance(asked, bool) or asked < 1:
        asked, notes = 16, (*notes, "no max_tokens on the line: 16 are a guess")
    model, heat = body.get("model"), body.get("temperature")
    return SeenLoad(
        origin=f"a {program} command line", rate_rps=rate, concurrency=concurrency, n_requests=n,
        prompt_tokens=(prompt,), output_tokens=asked, url=target, api=api,
        model=model if isinstance(model, str) and model.isprintable() and model else None,
        temperature=float(heat) if isinstance(heat, int | float) and 0 <= heat <= 2 else None,
        notes=notes,
    )  # fmt: skip


def _target(url: str) -> tuple[str, Api]:
    """The server's address without the endpoint, and without credentials and query."""
    address = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(address)
        name = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        host = f"{name}:{parts.port}" if parts.port else name
    except ValueError as error:
        raise SetupError(f"got the URL {url[:80]!r}, which cannot be read: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise SetupError(f"got the URL {url[:80]!r}, allowed is http://HOST:PORT/PATH")
    for path, api in _ENDPOINTS:
        if parts.path.rstrip("/").endswith(path):
            before = parts.path.rstrip("/").removesuffix(path)
            return f"{parts.scheme}://{host}{before}", api
    return f"{parts.scheme}://{host}", "openai-chat"


def _body(options: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The JSON object of `-d`; anything else is no request of ours, and is said."""
    if "D" in options:
        return {}, ("the body is in a file, which is not read: give it with -d",)
    if "d" not in options:
        return {}, ()
    try:
        body = json.loads(options["d"])
    except (ValueError, RecursionError):
        return {}, ("the body is no JSON",)
    return (body, ()) if isinstance(body, dict) else ({}, ("the body is no JSON object",))


def _prompt_tokens(body: Mapping[str, Any]) -> int | None:
    texts: list[str] = []
    messages = body.get("messages")
    if isinstance(messages, list):
        texts = [m["content"] for m in messages if isinstance(m, dict) and _is_text(m, "content")]
    elif _is_text(body, "prompt"):
        texts = [body["prompt"]]
    n = sum(map(len, texts))
    return max(1, round(n / CHARACTERS_A_TOKEN)) if n else None


def _is_text(value: Mapping[str, Any], key: str) -> bool:
    return isinstance(value.get(key), str)


def _whole(text: str, option: str) -> int:
    number = _number(text, option)
    if number != int(number) or number < 1:
        raise SetupError(f"{option}: got {text[:40]!r}, allowed is a whole number from 1")
    return int(number)


def _number(text: str, option: str) -> float:
    """A number, with wrk's k, M or G behind it."""
    unit = {"k": 1e3, "M": 1e6, "G": 1e9}.get(text[-1:], 1.0)
    try:
        value = float(text[:-1] if unit > 1 else text) * unit
    except ValueError as error:
        raise SetupError(f"{option}: got {text[:40]!r}, allowed is a number") from error
    if not 0 < value < 1e9:
        raise SetupError(f"{option}: got {text[:40]!r}, allowed is above 0 and below 1e9")
    return value


def _seconds(text: str, option: str) -> float:
    """A time in one unit, or in several as Go writes it: 1h30m."""
    parts = _PARTS.findall(text)
    if len(parts) > 1 and "".join(map("".join, parts)) == text:
        return sum(_number(value, option) * _SECONDS[unit] for value, unit in parts)
    unit = next((u for u in ("ms", "s", "m", "h") if text.endswith(u)), "")
    value = _number(text.removesuffix(unit), option)
    return value * _SECONDS.get(unit, 1.0)
