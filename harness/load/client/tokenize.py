"""Exact prompt lengths, counted by the target's own tokenizer.

What the target adds to every prompt (chat template, start token) is learnt once: from the counting
route where it can say so, else from the usage of a one-token answer. A target without any counting
route gives no counts; its usage then calibrates an estimate (`estimate_length`), and the caller
must say that lengths are approximate.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from harness.base.errors import SetupError
from harness.load.client.answer import n_prompt
from harness.load.client.count_routes import ROUTES, Ask, CountRoute
from harness.load.client.plain_http import PlainHttp, Reply

BATCH_TEXTS: Final = 512
BATCH_CHARS: Final = 400_000
_PROBES: Final = ("and", "and the sea rose")


class TargetTokenizer:
    """Counts tokens on one target.

    Attributes:
        overhead: tokens the target adds to every text: chat template, start token.
        path: the route that counts.
    """

    def __init__(
        self, http: PlainHttp, model: str, make_route: Callable[[Ask], CountRoute], *, is_chat: bool
    ) -> None:
        self._http = http
        self._model = model
        self._route = make_route(self._ask)
        self._is_chat = is_chat
        self._last = Reply(0, b"")
        self._is_additive = True
        self._takes_batches = False
        self.overhead = 0
        self.path = self._route.path

    @classmethod
    def detect(cls, http: PlainHttp, model: str, *, is_chat: bool) -> "TargetTokenizer | None":
        """A tokenizer if the target counts in a known form, else None."""
        for make_route in ROUTES:
            found = cls(http, model, make_route, is_chat=is_chat)
            if found._route.is_there():
                return found if found._learn() else None
        return None

    def count_many(self, texts: list[str]) -> list[int]:
        """Tokens of each text, `overhead` excluded.

        Raises:
            SetupError: the target stops counting midway.
        """
        if not self._is_additive:
            return [self._require(self._whole(text)) for text in texts]
        if not self._takes_batches:
            return [self._require(self._route.bare(text)) for text in texts]
        return [count for batch in _batches(texts) for count in self._count_batch(batch)]

    def _learn(self) -> bool:
        """Find the overhead and whether batches are taken; whether lengths can be exact at all."""
        bares = [self._require(self._route.bare(text)) for text in _PROBES]
        if bares[0] >= bares[1]:
            return False  # whatever it counts, it is not the text
        wholes = [self._whole(text) for text in _PROBES]
        has_whole = None not in wholes
        if not has_whole:
            wholes = [self._whole_by_usage(text) for text in _PROBES]
        overheads = {
            None if whole is None else whole - bare
            for whole, bare in zip(wholes, bares, strict=True)
        }
        overhead = overheads.pop()
        self._is_additive = not overheads and overhead is not None
        if overheads or overhead is None:
            return has_whole
        self.overhead = overhead
        self._takes_batches = self._route.batch(list(_PROBES)) is not None
        return True

    def _ask(self, path: str, value: dict[str, Any]) -> Any:
        self._last = self._http.post(path, {"model": self._model, **value})
        return self._last.json() if self._last.status == 200 else None

    def _whole_by_usage(self, text: str) -> int | None:
        return prompt_tokens_by_usage(self._http, self._model, text, is_chat=self._is_chat)

    def _whole(self, text: str) -> int | None:
        return self._route.whole(text, is_chat=self._is_chat)

    def _require(self, count: int | None) -> int:
        if count is None:
            raise self._stopped("a text")
        return count

    def _count_batch(self, texts: list[str]) -> list[int]:
        counts = self._route.batch(texts)
        if counts is None:
            raise self._stopped(f"{len(texts)} texts")
        return counts

    def _stopped(self, what: str) -> SetupError:
        return SetupError(
            f"{self._http.url}{self.path}: got HTTP {self._last.status} for {what}: "
            f"{self._last.shown()}"
        )


def prompt_tokens_by_usage(http: PlainHttp, model: str, text: str, *, is_chat: bool) -> int | None:
    """Length of the prompt with this text, as the usage of a one-token answer says it.

    None where there is no usage, or no answer in time.
    """
    said = {"messages": [{"role": "user", "content": text}]} if is_chat else {"prompt": text}
    path = "/v1/chat/completions" if is_chat else "/v1/completions"
    try:
        reply = http.post(path, {"model": model, **said, "max_tokens": 1, "temperature": 0.0})
    except SetupError:
        return None
    value = reply.json() if reply.status == 200 else None
    usage = value.get("usage") if isinstance(value, dict) else None
    return n_prompt(usage) if isinstance(usage, dict) else None


def _batches(texts: list[str]) -> Iterator[list[str]]:
    """The texts in batches that stay below the size servers accept."""
    batch: list[str] = []
    size = 0
    for text in texts:
        if batch and (len(batch) == BATCH_TEXTS or size + len(text) > BATCH_CHARS):
            yield batch
            batch, size = [], 0
        batch.append(text)
        size += len(text)
    if batch:
        yield batch
