"""Exact prompt lengths, counted by the target's own tokenizer over `POST /tokenize`.

Two forms are in use: a bare text and a list of chat messages; the bundled server also takes a batch
of texts. A target without the route gives no counts, and the caller must say that lengths are
approximate.
"""

from collections.abc import Iterator
from typing import Any, Final

from harness.base.errors import SetupError
from harness.load.client.plain_http import PlainHttp

ROUTE: Final = "/tokenize"
BATCH_TEXTS: Final = 512
BATCH_CHARS: Final = 400_000
_PROBES: Final = ("and", "and the sea rose")
_BARE: Final = {"add_special_tokens": False}


class TargetTokenizer:
    """Counts tokens on one target.

    Attributes:
        overhead: tokens the target adds to every text: chat template, start token.
    """

    def __init__(self, http: PlainHttp, model: str, *, is_chat: bool) -> None:
        self._http = http
        self._model = model
        self._is_chat = is_chat
        self._extra: dict[str, Any] = {}
        self._is_additive = True
        self._takes_batches = False
        self.overhead = 0

    @classmethod
    def detect(cls, http: PlainHttp, model: str, *, is_chat: bool) -> "TargetTokenizer | None":
        """A tokenizer if the target has the route, else None."""
        found = cls(http, model, is_chat=is_chat)
        if found._try_count({"prompt": _PROBES[0]}) is None:
            return None
        found._learn()
        return found

    def count_many(self, texts: list[str]) -> list[int]:
        """Tokens of each text, `overhead` excluded.

        Raises:
            SetupError: the target stops counting midway.
        """
        if not self._is_additive:
            return [self._count(self._whole(text)) for text in texts]
        if not self._takes_batches:
            return [self._count({"prompt": text, **self._extra}) for text in texts]
        return [count for batch in _batches(texts) for count in self._count_batch(batch)]

    def _learn(self) -> None:
        """Find out how to count bare text, the overhead, and whether batches are taken."""
        if self._try_count({"prompt": _PROBES[0], **_BARE}) is not None:
            self._extra = dict(_BARE)
        differences = {self._overhead_of(text) for text in _PROBES}
        self._is_additive = len(differences) == 1 and None not in differences
        if not self._is_additive:
            return
        self.overhead = differences.pop() or 0
        reply = self._http.post(
            ROUTE, {"model": self._model, "prompts": list(_PROBES), **self._extra}
        )
        self._takes_batches = (
            reply.status == 200 and _counts(reply.json(), len(_PROBES)) is not None
        )

    def _overhead_of(self, text: str) -> int | None:
        bare = self._try_count({"prompt": text, **self._extra})
        whole = self._try_count(self._whole(text))
        return None if bare is None or whole is None else whole - bare

    def _whole(self, text: str) -> dict[str, Any]:
        """The question whose count includes all that the target adds."""
        if self._is_chat:
            return {"messages": [{"role": "user", "content": text}]}
        return {"prompt": text}

    def _try_count(self, question: dict[str, Any]) -> int | None:
        reply = self._http.post(ROUTE, {"model": self._model, **question})
        value = reply.json() if reply.status == 200 else None
        count = value.get("count") if isinstance(value, dict) else None
        return count if isinstance(count, int) else None

    def _count(self, question: dict[str, Any]) -> int:
        count = self._try_count(question)
        if count is None:
            raise SetupError(f"{self._http.url}{ROUTE} stopped counting; is the server still up?")
        return count

    def _count_batch(self, texts: list[str]) -> list[int]:
        reply = self._http.post(ROUTE, {"model": self._model, "prompts": texts, **self._extra})
        counts = _counts(reply.json(), len(texts)) if reply.status == 200 else None
        if counts is None:
            raise SetupError(
                f"{self._http.url}{ROUTE}: got HTTP {reply.status} for {len(texts)} texts: "
                f"{reply.shown()}"
            )
        return counts


def _counts(value: Any, n: int) -> list[int] | None:
    counts = value.get("counts") if isinstance(value, dict) else None
    if isinstance(counts, list) and len(counts) == n and all(isinstance(c, int) for c in counts):
        return counts
    return None


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
