"""Adapters for llama.cpp's own server and llama-cpp-python: OpenAI's routes, other sampling names.

They ignore in silence what they do not know, so `repetition_penalty` goes out as `repeat_penalty`.
llama.cpp's penalties look at the last 64 tokens unless told otherwise; they are told to look at the
last 131,072, prompt included (its frequency and presence penalties count the prompt as well, which
other servers' do not). Its older word for the whole context, -1, is refused by newer builds.

Source: llama.cpp tools/server/README.md, section "POST /completion".
"""

from types import MappingProxyType
from typing import Any, Final

from harness.load.client.openai import OpenAiChat, OpenAiCompletions

SPELLING: Final = MappingProxyType({"repetition_penalty": "repeat_penalty"})
WHOLE_CONTEXT: Final = MappingProxyType[str, Any]({"repeat_last_n": 131_072})


class LlamaCppChat(OpenAiChat):
    """`/v1/chat/completions` of llama.cpp."""

    name = "llamacpp-chat"
    spelling = SPELLING
    extra = WHOLE_CONTEXT


class LlamaCppCompletions(OpenAiCompletions):
    """`/v1/completions` of llama.cpp."""

    name = "llamacpp-completions"
    spelling = SPELLING
    extra = WHOLE_CONTEXT
