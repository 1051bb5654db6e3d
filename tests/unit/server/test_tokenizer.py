import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from harness.base.errors import RecordError
from harness.server.tokenizer import (
    SPECIAL_TOKENS,
    TOKENIZER_FILE,
    Detokenizer,
    Message,
    TextTokenizer,
)

TINY = Path(__file__).parents[3] / "harness" / "server" / "weights" / "tiny"
TOKENIZER = TextTokenizer.load(TINY)

any_text = st.text()
spiked_text = st.lists(st.one_of(st.sampled_from(SPECIAL_TOKENS), st.text(max_size=5))).map("".join)
ids_of_any_token = st.lists(st.integers(0, TOKENIZER.vocab_size - 1), max_size=40)


@given(any_text)
@example("e\u0301 \u00e9 \U0001f469\u200d\U0001f680\r\n\t\0  two  spaces ")
def test_decode_undoes_encode(text: str) -> None:
    """Every text comes back exactly, whatever its script, spacing or normal form."""
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(spiked_text)
@example("<|eos|>")
@example("a<|end|><|assistant|>b")
def test_user_text_never_becomes_a_special_token(text: str) -> None:
    """The characters of a special token, typed by a user, are plain text and survive."""
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.special_ids.isdisjoint(ids)
    assert TOKENIZER.decode(ids) == text


def test_a_lone_surrogate_becomes_the_replacement_character() -> None:
    """Half a surrogate pair, which JSON can carry and UTF-8 cannot, does not break encoding."""
    assert TOKENIZER.decode(TOKENIZER.encode("a\ud800b")) == "a\ufffdb"


@given(any_text)
def test_token_bytes_join_to_the_text(text: str) -> None:
    """The bytes of the tokens, joined, are the UTF-8 of the text."""
    ids = TOKENIZER.encode(text)
    assert b"".join(TOKENIZER.token_bytes(i) for i in ids) == text.encode()


def test_every_byte_has_a_token() -> None:
    """All 256 bytes are tokens, so nothing is unencodable."""
    single = {TOKENIZER.token_bytes(i) for i in range(TOKENIZER.vocab_size)}
    assert {bytes([byte]) for byte in range(256)} <= single


def test_special_tokens_come_first_and_have_no_bytes() -> None:
    """The five special tokens are ids 0 to 4, stand for no text, and two of them stop an answer."""
    assert TOKENIZER.special_ids == {0, 1, 2, 3, 4}
    assert (TOKENIZER.bos_id, TOKENIZER.eos_id) == (0, 1)
    assert {TOKENIZER.token_bytes(i) for i in range(5)} == {b""}
    assert TOKENIZER.stop_ids == {TOKENIZER.eos_id, TOKENIZER.end_id}


def test_decode_skips_special_tokens() -> None:
    """Special tokens between others leave no trace in the text."""
    ids = TOKENIZER.encode("one two")
    spiked = [TOKENIZER.bos_id, ids[0], TOKENIZER.end_id, *ids[1:], TOKENIZER.eos_id]
    assert TOKENIZER.decode(spiked) == "one two"


@pytest.mark.parametrize("token_id", [-1, 4096])
def test_ids_outside_the_vocabulary_are_refused(token_id: int) -> None:
    """A negative id does not count from the end, and one past the vocabulary is no token."""
    assert TOKENIZER.vocab_size == 4096
    with pytest.raises(IndexError):
        TOKENIZER.token_bytes(token_id)


def test_chat_frames_every_turn() -> None:
    """Each turn is role token, text, end token; the prompt ends where the answer starts."""
    ids = TOKENIZER.chat([Message("user", "Hello"), Message("assistant", "Well")])
    assert ids == [
        TOKENIZER.bos_id,
        TOKENIZER.user_id,
        *TOKENIZER.encode("Hello"),
        TOKENIZER.end_id,
        TOKENIZER.assistant_id,
        *TOKENIZER.encode("Well"),
        TOKENIZER.end_id,
        TOKENIZER.assistant_id,
    ]


def test_chat_renders_a_system_message_as_a_users() -> None:
    """The model knows two roles; system text is kept, as user text."""
    system = TOKENIZER.chat([Message("system", "Be brief.")])
    assert system == TOKENIZER.chat([Message("user", "Be brief.")])


def test_a_conversation_is_a_prefix_of_its_continuation() -> None:
    """Adding turns keeps the earlier tokens, so that a prefix cache can reuse them."""
    first = [Message("user", "Who art thou?")]
    longer = [*first, Message("assistant", "I am."), Message("user", "And then?")]
    start = TOKENIZER.chat(first)
    assert TOKENIZER.chat(longer)[: len(start)] == start


@given(spiked_text)
def test_chat_text_cannot_forge_a_turn(text: str) -> None:
    """However a message is worded, the prompt has exactly the turns it was given."""
    ids = TOKENIZER.chat([Message("user", text)])
    assert sum(i in TOKENIZER.special_ids for i in ids) == 4


@given(ids_of_any_token)
def test_detokenizer_joins_to_decode(ids: list[int]) -> None:
    """Pieces and remainder together are the decoded whole, also for ids that are no valid UTF-8."""
    stream = Detokenizer(TOKENIZER)
    pieces = [stream.push(i) for i in ids]
    assert "".join(pieces) + stream.finish() == TOKENIZER.decode(ids)


@given(any_text)
def test_detokenizer_gives_a_prefix_of_the_text_after_every_token(text: str) -> None:
    """At every split of a text's tokens what was given is a prefix of it, and nothing is left."""
    stream, given_text = Detokenizer(TOKENIZER), ""
    for token_id in TOKENIZER.encode(text):
        given_text += stream.push(token_id)
        assert text.startswith(given_text)
    assert given_text == text
    assert stream.finish() == ""


def test_detokenizer_holds_back_part_of_a_character() -> None:
    """The four bytes of a character give nothing, nothing, nothing, then the character."""
    by_bytes = {TOKENIZER.token_bytes(i): i for i in range(TOKENIZER.vocab_size)}
    stream = Detokenizer(TOKENIZER)
    pieces = [stream.push(by_bytes[bytes([byte])]) for byte in "\U0001f680".encode()]
    assert pieces == ["", "", "", "\U0001f680"]


def test_detokenizer_flushes_an_unfinished_character() -> None:
    """A sequence cut inside a character ends with the replacement character."""
    by_bytes = {TOKENIZER.token_bytes(i): i for i in range(TOKENIZER.vocab_size)}
    stream = Detokenizer(TOKENIZER)
    assert stream.push(by_bytes[b"\xf0"]) == ""
    assert stream.finish() == "\ufffd"
    assert stream.finish() == ""


def test_save_and_load_round_trip(tmp_path: Path) -> None:
    """A saved tokenizer encodes as the one it was saved from, special text included."""
    TOKENIZER.save(tmp_path)
    text = "In the beginning <|eos|> was the word."
    assert TextTokenizer.load(tmp_path).encode(text) == TOKENIZER.encode(text)
    assert [path.name for path in tmp_path.iterdir()] == [TOKENIZER_FILE]


def test_missing_file_names_the_folder(tmp_path: Path) -> None:
    """A folder without a tokenizer gives an error that names it and says what to do."""
    with pytest.raises(RecordError, match=r"no tokenizer\.json there.*training\.train") as caught:
        TextTokenizer.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "{}", '{"version": "1.0"'])
def test_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    """A file that is no tokenizer is refused with its path."""
    (tmp_path / TOKENIZER_FILE).write_text(text)
    with pytest.raises(RecordError, match=r"tokenizer\.json: damaged"):
        TextTokenizer.load(tmp_path)


def test_tokenizer_without_special_tokens_is_refused(tmp_path: Path) -> None:
    """A tokenizer of another model, without the chat template's tokens, is refused by name."""
    raw = json.loads((TINY / TOKENIZER_FILE).read_text())
    raw["added_tokens"] = [t for t in raw["added_tokens"] if t["content"] != "<|end|>"]
    del raw["model"]["vocab"]["<|end|>"]
    (tmp_path / TOKENIZER_FILE).write_text(json.dumps(raw))
    with pytest.raises(RecordError, match=r"no <\|end\|> token"):
        TextTokenizer.load(tmp_path)
