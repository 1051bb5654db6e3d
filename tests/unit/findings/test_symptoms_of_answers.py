"""What texts alone show: circles, answers to another question, answers that are none."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest

from harness.findings.symptoms import RULES, Context
from harness.findings.symptoms.repeated_text import repeated_share

PROSE = (
    "the river ran past the old house and the child asked why it never stopped while her father "
    "mended nets beside the water and thought of winter storms that had taken two boats before"
)


def found(**columns: Sequence[object]) -> list[str]:
    context = Context(records=pd.DataFrame(columns))
    return [symptom.name for rule in RULES if (symptom := rule(context)) is not None]


def shuffled(seed: int) -> str:
    words = np.random.default_rng(seed).permutation(PROSE.split() * 2)
    return " ".join(words)


def test_a_share_of_circles_is_named() -> None:
    """Two of twenty answers say one sentence again and again."""
    texts = [PROSE] * 18 + ["I am sorry I do not know that. " * 12] * 2
    assert found(text=texts) == ["repeated_text"]


@pytest.mark.parametrize("seed", range(4))
def test_prose_and_short_answers_are_no_circles(seed: int) -> None:
    """Words that come again in another order, and two words that are one, are healthy."""
    assert found(text=[shuffled(seed), PROSE, "yes yes", ""] * 10, outcome=["ok"] * 40) == []


def test_the_repeated_share_by_hand() -> None:
    """Twelve words twice are 21 runs of four, of which the last nine came before."""
    twelve = "a b c d e f g h i j k l "
    assert repeated_share(twelve * 2) == pytest.approx(1 - 12 / 21)
    assert repeated_share(twelve) is None


def test_answers_to_another_question_are_named() -> None:
    """Half share no telling word with their prompt; answers that take one up are silent."""
    prompt = "explain photosynthesis inside leaves under bright sunlight"
    good = "in leaves the energy of sunlight makes sugar from air and water and light"
    bad = "my favourite football club won the final match last night in extra time again"
    assert found(prompt=[prompt] * 10, text=[good, bad] * 5) == ["off_topic"]
    assert found(prompt=[prompt] * 10, text=[good] * 10) == []


def test_broken_answers_are_named_with_their_counts() -> None:
    """3 of 100 were cut; 1 of 100 is within what may happen."""
    rows = pd.DataFrame({"outcome": ["ok"] * 97 + ["truncated"] * 2 + ["reset"]})
    names = [rule(Context(records=rows)) for rule in RULES]
    (symptom,) = [each for each in names if each is not None]
    assert symptom.name == "broken_answers"
    assert [(f.what, f.value) for f in symptom.evidence[1:]] == [("truncated", 2.0), ("reset", 1.0)]
    assert found(outcome=["ok"] * 99 + ["reset"]) == []
