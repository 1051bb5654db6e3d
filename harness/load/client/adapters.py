"""The adapters by the name that `target.api` gives them."""

from collections.abc import Iterable
from typing import Final

from harness.load.client.adapter import Adapter
from harness.load.client.llamacpp import LlamaCppChat, LlamaCppCompletions
from harness.load.client.openai import OpenAiChat, OpenAiCompletions

_CLASSES: Final = {
    adapter.name: adapter
    for adapter in (OpenAiChat, OpenAiCompletions, LlamaCppChat, LlamaCppCompletions)
}
NAMES: Final = tuple(_CLASSES)


def build_adapter(api: str, omit: Iterable[str] = ()) -> Adapter:
    """The adapter of this name, which leaves the sampling fields in `omit` out of its requests.

    Raises:
        KeyError: no such adapter.
    """
    return _CLASSES[api](omit=frozenset(omit))
