"""Answers have no word in common with what was asked.

A weak sign, and the only one that texts alone give: whether facts and reasoning are right cannot be
seen from here.
"""

import re
from typing import Final

from harness.findings.quantity import many, percent
from harness.findings.symptoms.symptom import Context, Figure, Symptom

SHORTEST: Final = 12
"""Words of an answer below which nothing is said of it."""
FEWEST: Final = 4
"""Telling words of a prompt, likewise."""
LIMIT: Final = 0.2
_WORD: Final = re.compile(r"[^\W\d_]{5,}")
"""Five letters and more: articles, pronouns and the like are left out in most languages."""


def check(context: Context) -> Symptom | None:
    """Fires where over 20 % of the answers share no telling word with their prompt."""
    rows = context.records
    if rows is None or "text" not in rows or "prompt" not in rows:
        return None
    pairs = rows[["prompt", "text"]].dropna()
    judged = [
        strays
        for prompt, text in zip(pairs["prompt"], pairs["text"], strict=True)
        if (strays := _strays(prompt, text)) is not None
    ]
    share = sum(judged) / len(judged) if judged else 0.0
    if share <= LIMIT:
        return None
    return Symptom(
        name="off_topic",
        seen=f"{percent(share)} of {many(len(judged), 'answer')} share no word with the question.",
        cause="Temperature too high, a wrong chat template, or a prompt that was cut.",
        fix=(
            "Lower temperature and top_p; look at the template (prompt tokens by usage against "
            "your own count) and at max_model_len."
        ),
        strength=share / LIMIT,
        evidence=(
            Figure(
                what="share of answers without a word of the question", value=share, unit="share"
            ),
        ),
    )


def _strays(prompt: str, text: str) -> bool | None:
    asked, said = set(_WORD.findall(prompt.lower())), _WORD.findall(text.lower())
    if len(asked) < FEWEST or len(text.split()) < SHORTEST:
        return None
    return asked.isdisjoint(said)
