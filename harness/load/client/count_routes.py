"""The forms in which servers count the tokens of a text, one class each; no sockets.

Each is asked through a function that posts a JSON value to a path and gives back the JSON answer,
or None where the server did not answer 200. A count is None where this form is not the server's.

Source: the routes of vLLM, SGLang, llama.cpp's server and llama-cpp-python's server.
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

Ask = Callable[[str, dict[str, Any]], Any]

_BARE: Final = {"add_special_tokens": False}
_TRIED: Final = "and"


class CountRoute(Protocol):
    """One form of the question.

    Attributes:
        path: the route, for messages.
    """

    path: str

    def is_there(self) -> bool:
        """Whether the server counts in this form; asked once, before anything else."""
        ...

    def bare(self, text: str) -> int | None:
        """Tokens of the text alone."""
        ...

    def whole(self, text: str, *, is_chat: bool) -> int | None:
        """Tokens of a prompt with this text: template and start token included."""
        ...

    def batch(self, texts: list[str]) -> list[int] | None:
        """Tokens of each text alone, in one question; None where no batches are taken."""
        ...


class PromptRoute:
    """vLLM, SGLang, the bundled server: `prompt` or `messages` in, `count` out."""

    path = "/tokenize"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._extra: dict[str, Any] = {}

    def is_there(self) -> bool:
        """Find the form, and whether a start token can be left out."""
        if self.bare(_TRIED) is None:
            return False
        if _count(self._ask(self.path, {"prompt": _TRIED, **_BARE})) is not None:
            self._extra = dict(_BARE)
        return True

    def bare(self, text: str) -> int | None:
        """Tokens of the text alone."""
        return _count(self._ask(self.path, {"prompt": text, **self._extra}))

    def whole(self, text: str, *, is_chat: bool) -> int | None:
        """The server applies its own template."""
        if is_chat:
            return _count(self._ask(self.path, {"messages": _messages(text)}))
        return _count(self._ask(self.path, {"prompt": text}))

    def batch(self, texts: list[str]) -> list[int] | None:
        """The bundled server's `prompts`."""
        value = self._ask(self.path, {"prompts": texts, **self._extra})
        counts = value.get("counts") if isinstance(value, dict) else None
        is_whole = isinstance(counts, list) and len(counts) == len(texts)
        return counts if is_whole and all(_is_count(count) for count in counts or ()) else None


class ContentRoute:
    """llama.cpp: `content` in, a list of tokens out; the template is applied by another route."""

    path = "/tokenize"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def is_there(self) -> bool:
        """An unknown field gives this server an empty list, so only tokens count as an answer."""
        return bool(self.bare(_TRIED))

    def bare(self, text: str) -> int | None:
        """Tokens of the text alone."""
        return self._tokens(text, add_special=False, parse_special=False)

    def whole(self, text: str, *, is_chat: bool) -> int | None:
        """The text after `/apply-template`, with the special tokens that it names."""
        if not is_chat:
            return self._tokens(text, add_special=True, parse_special=False)
        value = self._ask("/apply-template", {"messages": _messages(text)})
        prompt = value.get("prompt") if isinstance(value, dict) else None
        if not isinstance(prompt, str):
            return None
        return self._tokens(prompt, add_special=True, parse_special=True)

    def batch(self, texts: list[str]) -> list[int] | None:
        """Not offered: a list is taken as one mixed prompt."""
        del texts
        return None

    def _tokens(self, text: str, **options: bool) -> int | None:
        value = self._ask(self.path, {"content": text, **options})
        tokens = value.get("tokens") if isinstance(value, dict) else None
        return len(tokens) if isinstance(tokens, list) else None


class InputRoute:
    """llama-cpp-python: `input` in, `count` out, a start token included where the model has one."""

    path = "/extras/tokenize/count"

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def is_there(self) -> bool:
        """Whether it answers with a count."""
        return self.bare(_TRIED) is not None

    def bare(self, text: str) -> int | None:
        """Tokens of the text; what the model puts before every text is part of it."""
        return _count(self._ask(self.path, {"input": text}))

    def whole(self, text: str, *, is_chat: bool) -> int | None:
        """A bare prompt is what it counts; its chat template cannot be asked."""
        return None if is_chat else self.bare(text)

    def batch(self, texts: list[str]) -> list[int] | None:
        """Not offered."""
        del texts
        return None


ROUTES: Final[tuple[Callable[[Ask], CountRoute], ...]] = (PromptRoute, ContentRoute, InputRoute)


def _messages(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def _count(value: Any) -> int | None:
    count = value.get("count") if isinstance(value, dict) else None
    return count if _is_count(count) else None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
