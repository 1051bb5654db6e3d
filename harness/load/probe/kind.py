"""What kind of server this is, guessed from what it says about itself; pure.

Only words that a server says count; nothing is concluded from silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

UNKNOWN: Final = "unknown"
ROUTES: Final = ("/version", "/props", "/api/version", "/info", "/get_model_info", "/openapi.json")
"""Asked in this order where the model list does not tell."""

_OWNERS: Final = {
    "vllm": "vLLM",
    "sglang": "SGLang",
    "llamacpp": "llama.cpp",
    "tailbreak": "tailbreak serve",
    "library": "Ollama",
}
_HEADERS: Final = {
    "llama.cpp": "llama.cpp",
    "tailbreak": "tailbreak serve",
    "openresty": "a proxy (openresty)",
}
_TITLES: Final = {
    "llama.cpp python": "llama-cpp-python",
    "text generation inference": "TGI",
    "vllm": "vLLM",
    "sglang": "SGLang",
    "tailbreak": "tailbreak serve",
}


@dataclass(frozen=True, kw_only=True)
class Said:
    """One answer of the server about itself.

    Attributes:
        status: HTTP status.
        server: the Server header, empty without.
        value: the body as JSON, None where it is none.
    """

    status: int
    server: str = ""
    value: Any = None


@dataclass(frozen=True, kw_only=True)
class ServerKind:
    """What the server is.

    Attributes:
        name: product name, or `unknown`.
        version: version text, None where none was said.
        evidence: what it was read from.
    """

    name: str = UNKNOWN
    version: str | None = None
    evidence: str = "nothing that it says names a known server"


def guess_kind(said: Mapping[str, Said]) -> ServerKind:
    """The kind, from the answers by route; `/v1/models` is the first of them."""
    kind = _by_owner(said) or _by_route(said) or _by_header(said) or ServerKind()
    return ServerKind(name=kind.name, version=_version(said), evidence=kind.evidence)


def _by_owner(said: Mapping[str, Said]) -> ServerKind | None:
    models = _object(said, "/v1/models").get("data")
    for entry in models if isinstance(models, list) else ():
        owner = entry.get("owned_by") if isinstance(entry, dict) else None
        if isinstance(owner, str) and owner in _OWNERS:
            return ServerKind(name=_OWNERS[owner], evidence=f"/v1/models: owned_by {owner!r}")
    return None


def _by_route(said: Mapping[str, Said]) -> ServerKind | None:
    title = _object(said, "/openapi.json").get("info", {}).get("title", "")
    for word, name in _TITLES.items():
        if isinstance(title, str) and word in title.lower():
            return ServerKind(name=name, evidence=f"/openapi.json: title {title!r}")
    if "default_generation_settings" in _object(said, "/props"):
        return ServerKind(name="llama.cpp", evidence="/props")
    if "model_path" in _object(said, "/get_model_info"):
        return ServerKind(name="SGLang", evidence="/get_model_info")
    if "model_id" in _object(said, "/info"):
        return ServerKind(name="TGI", evidence="/info")
    if "version" in _object(said, "/api/version"):
        return ServerKind(name="Ollama", evidence="/api/version")
    if "version" in _object(said, "/version"):
        return ServerKind(name="vLLM", evidence="/version")
    return None


def _by_header(said: Mapping[str, Said]) -> ServerKind | None:
    for answer in said.values():
        for word, name in _HEADERS.items():
            if word in answer.server.lower():
                return ServerKind(name=name, evidence=f"Server header {answer.server!r}")
    return None


def _version(said: Mapping[str, Said]) -> str | None:
    found = (
        _object(said, "/version").get("version"),
        _object(said, "/api/version").get("version"),
        _object(said, "/info").get("version"),
        _object(said, "/props").get("build_info"),
        _object(said, "/openapi.json").get("info", {}).get("version"),
    )
    return next((text[:80] for text in found if isinstance(text, str) and text), None)


def _object(said: Mapping[str, Said], route: str) -> dict[str, Any]:
    answer = said.get(route)
    if answer is None or answer.status != 200 or not isinstance(answer.value, dict):
        return {}
    info = answer.value.get("info")
    return {**answer.value, "info": info if isinstance(info, dict) else {}}
