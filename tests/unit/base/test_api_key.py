import pytest

from harness.base.api_key import hide_key, read_api_key
from harness.base.errors import SetupError


@pytest.mark.parametrize("key", ["", " q9z", "q9z\n", "top\nsecret", "top\rsecret", "schlüssel"])
def test_a_key_that_no_header_carries_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """The message names the option and the variable, and never what the variable holds."""
    monkeypatch.setenv("SOME_KEY", key)
    with pytest.raises(SetupError, match="--api-key-env names SOME_KEY") as caught:
        read_api_key("SOME_KEY", "--api-key-env")
    assert not key.strip() or key.strip() not in str(caught.value)


def test_a_variable_that_is_not_set_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who mistyped the variable reads its name."""
    monkeypatch.delenv("SOME_KEY", raising=False)
    with pytest.raises(SetupError, match="SOME_KEY, which is not set"):
        read_api_key("SOME_KEY", "--api-key-env")


def test_a_plain_key_is_read_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Punctuation and inner spaces are part of a key."""
    monkeypatch.setenv("SOME_KEY", "sk-a b/+=")
    assert read_api_key("SOME_KEY", "--api-key-env") == "sk-a b/+="


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bad key sk-12345678, go", "bad key [key], go"),
        ("sk-12345678sk-12345678", "[key][key]"),
        ("cut here: sk-1234…", "cut here: [key]"),
        ("cut here: sk-12345", "cut here: [key]"),
        ("sk-1 is another", "sk-1 is another"),
        ("", ""),
    ],
)
def test_a_key_that_a_server_repeats_is_hidden(text: str, shown: str) -> None:
    """Whole or cut off where the text was bounded; other words stay."""
    assert hide_key(text, "sk-12345678") == shown
    assert hide_key(text, None) == hide_key(text, "sk") == text
