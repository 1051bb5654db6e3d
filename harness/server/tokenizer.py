"""Text to token ids and back, and the chat template.

A byte-level BPE: every string has an encoding, and decoding gives back exactly its bytes. Special
tokens are inserted by the server only; the same characters typed by a user are ordinary text.
`Detokenizer` turns a stream of ids into text that never ends inside a multi-byte character.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from tokenizers import Tokenizer

from harness.base.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

TOKENIZER_FILE = "tokenizer.json"
BOS, EOS, USER, ASSISTANT, END = "<|bos|>", "<|eos|>", "<|user|>", "<|assistant|>", "<|end|>"
SPECIAL_TOKENS = (BOS, EOS, USER, ASSISTANT, END)


class Message(NamedTuple):
    """One turn of a conversation; `role` is system, developer, user or assistant."""

    role: str
    text: str


class TokenDecoder(Protocol):
    """What a `Detokenizer` needs of a tokenizer."""

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes a token stands for; none for a special token."""


class TextTokenizer:
    """A byte-level BPE tokenizer with the five special tokens of the chat template.

    Attributes:
        stop_ids: Tokens that end an answer: the end of the text, and the end of a turn.
        special_ids: All special tokens; they have no text.
        max_token_bytes: Length of the longest token.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        # The library would otherwise turn "<|eos|>" inside user text into the special token.
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer
        self.vocab_size: int = tokenizer.get_vocab_size(with_added_tokens=True)
        self._special = {name: _require_special(tokenizer, name) for name in SPECIAL_TOKENS}
        self.bos_id, self.eos_id = self._special[BOS], self._special[EOS]
        self.user_id, self.assistant_id = self._special[USER], self._special[ASSISTANT]
        self.end_id = self._special[END]
        self.special_ids = frozenset(self._special.values())
        self.stop_ids = frozenset({self.eos_id, self.end_id})
        self._bytes = [self._bytes_of(token_id) for token_id in range(self.vocab_size)]
        self.max_token_bytes = max(map(len, self._bytes))

    @property
    def for_engine(self) -> dict[str, Any]:
        """What an engine has to know of it: size, tokens it must not draw, tokens that end."""
        return {
            "vocab_size": self.vocab_size,
            "control_ids": [self.bos_id, self.user_id, self.assistant_id],
            "stop_ids": [self.eos_id, self.end_id],
        }

    @classmethod
    def load(cls, folder: Path) -> TextTokenizer:
        """Read `tokenizer.json` of a model folder.

        Raises:
            RecordError: The file is missing, damaged, or lacks a special token.
        """
        path = folder / TOKENIZER_FILE
        if not path.is_file():
            raise RecordError(
                f"{folder}: no {TOKENIZER_FILE} there. Give a folder that holds a model and its "
                "tokenizer, or retrain with `python -m harness.server.training.train`."
            )
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises a bare Exception
            raise RecordError(f"{path}: damaged ({error}). Restore the file.") from error
        return cls(tokenizer)

    def save(self, folder: Path) -> None:
        """Write `tokenizer.json`, replaced atomically."""
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{TOKENIZER_FILE}.part"
        self._tokenizer.save(str(part))
        part.replace(folder / TOKENIZER_FILE)

    def encode(self, text: str) -> list[int]:
        """Encode plain text; never yields a special token, whatever the text says.

        A lone surrogate (possible in JSON, not in UTF-8) becomes U+FFFD.
        """
        clean = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        ids: list[int] = self._tokenizer.encode(clean, add_special_tokens=False).ids
        return ids

    def decode(self, ids: Iterable[int]) -> str:
        """Decode, skipping special tokens; bytes that are not UTF-8 become U+FFFD."""
        return b"".join(self.token_bytes(token_id) for token_id in ids).decode("utf-8", "replace")

    def token_bytes(self, token_id: int) -> bytes:
        """Give the bytes a token stands for; none for a special token.

        Raises:
            IndexError: The id is outside the vocabulary.
        """
        if token_id < 0:
            raise IndexError(f"token id {token_id} is negative")
        return self._bytes[token_id]

    def token_name(self, token_id: int) -> str:
        """Name a token for people: its text, its marker, or its bytes if they are no whole text."""
        raw = self.token_bytes(token_id)
        try:
            return raw.decode() if raw else str(self._tokenizer.id_to_token(token_id))
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Render a conversation, ending where the assistant's next answer starts.

        Each turn is its role's token, the text and the end token. The model knows two roles; a
        message of the system or the developer is rendered as a user's.
        """
        ids = [self.bos_id]
        for message in messages:
            ids.append(self.assistant_id if message.role == "assistant" else self.user_id)
            ids += self.encode(message.text)
            ids.append(self.end_id)
        return [*ids, self.assistant_id]

    def _bytes_of(self, token_id: int) -> bytes:
        """Undo the byte-level alphabet for one token."""
        if token_id in self.special_ids:
            return b""
        token: str | None = self._tokenizer.id_to_token(token_id)
        return b"" if token is None else bytes(_BYTE_OF[char] for char in token)


class Detokenizer:
    """Turns one sequence's ids into text as they come, whole characters only.

    Bytes of an unfinished character are held back until a later token completes them.
    """

    def __init__(self, tokenizer: TokenDecoder) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token_id: int) -> str:
        """Take one token; return the text it completes, possibly none."""
        return self._decoder.decode(self._tokenizer.token_bytes(token_id))

    def finish(self) -> str:
        """End the sequence; a character still unfinished becomes U+FFFD."""
        return self._decoder.decode(b"", final=True)


def _require_special(tokenizer: Tokenizer, name: str) -> int:
    """Find a special token's id."""
    token_id: int | None = tokenizer.token_to_id(name)
    if token_id is None:
        raise RecordError(
            f"the tokenizer has no {name} token, expected {', '.join(SPECIAL_TOKENS)}. "
            "Use a tokenizer trained with `python -m harness.server.training.train`."
        )
    return token_id


def _byte_alphabet() -> dict[str, int]:
    """Map the printable stand-ins of byte-level BPE to bytes.

    Source: GPT-2's encoder: printable Latin-1 stands for itself, the rest follows from U+0100 on.
    """
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {chr(byte): byte for byte in printable}
    return alphabet | {chr(0x100 + index): byte for index, byte in enumerate(others)}


_BYTE_OF = _byte_alphabet()
