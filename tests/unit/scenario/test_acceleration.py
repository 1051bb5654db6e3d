from typing import Any

import pytest

from harness.scenario.acceleration import Asked, agrees, header, normalised
from harness.scenario.read import parse_scenario
from tests.make_records import SMALL


@pytest.mark.parametrize(
    ("written", "kept", "sent"),
    [
        (False, False, "false"),
        (True, True, "true"),
        ("true", True, "true"),
        (" False ", False, "false"),
        ("paged_kv", "paged_kv", "paged_kv"),
        ("Prefix_Cache, paged_kv", "paged_kv,prefix_cache", "paged_kv,prefix_cache"),
        ("packed_state,true", "true,packed_state", "true,packed_state"),
        ("device_pool:bf16", "device_pool:bf16", "device_pool:bf16"),
    ],
)
def test_one_request_has_one_spelling(written: Asked, kept: Asked, sent: str) -> None:
    """Order, letters and spaces do not make two cells of one request; the header says the same."""
    assert normalised(written) == kept
    assert header(normalised(written)) == sent


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (3, "allowed is true, false or a comma list"),
        ("", "allowed is true, false or a comma list"),
        ("x" * 201, "at most 200 characters"),
        ("paged_kv,", "the word ''"),
        ("paged kv", "the word 'paged kv'"),
        ("paged_kv\r\nX-Other: 1", "allowed are letters, digits"),
        ("paged_kv,paged_kv", "names a feature twice"),
        ("false,paged_kv", "it stands alone"),
    ],
)
def test_what_no_header_may_say_is_refused(written: Any, said: str) -> None:
    """Not a word, a word twice, the baseline beside features: what came and what is allowed."""
    with pytest.raises(ValueError, match="got") as caught:
        normalised(written)
    assert said in str(caught.value)


def test_a_feature_list_stands_twice_on_no_axis() -> None:
    """The same features in another order would be measured and compared as two."""
    with pytest.raises(Exception, match="lists a value twice"):
        parse_scenario(SMALL.replace("[false, true]", '[false, "a,b", "b,a"]'), "f.toml")


@pytest.mark.parametrize(
    ("asked", "ran", "is_it"),
    [
        (False, "", True),
        (False, "a", False),
        (True, "a", True),
        (True, "", False),
        ("a,b", "b a", True),
        ("a,b", "a", False),
        ("a,b", "a b c", False),
        ("true,x", "a x", True),
        ("true,x", "a", False),
        ("true,x", "x", True),
    ],
)
def test_a_list_is_confirmed_by_exactly_its_features(
    asked: Asked, ran: str, *, is_it: bool
) -> None:
    """`true` is confirmed by any feature; what is named beside it must be there."""
    assert agrees(asked, frozenset(ran.split())) is is_it
