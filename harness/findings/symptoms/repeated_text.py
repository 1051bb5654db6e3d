"""Answers go round in circles: the same words again and again."""

from typing import Final

from harness.findings.quantity import many, percent
from harness.findings.symptoms.symptom import Context, Figure, Symptom

N_WORDS: Final = 4
SHORTEST: Final = 24
"""Words of an answer below which nothing is said of it."""
REPEATED: Final = 0.3
"""Share of runs of four words that came before in the same answer; prose has some per cent."""
LIMIT: Final = 0.05


def check(context: Context) -> Symptom | None:
    """Fires where over 5 % of the answers repeat a third of what they say."""
    rows = context.records
    if rows is None or "text" not in rows:
        return None
    shares = [
        share for text in rows["text"].dropna() if (share := repeated_share(text)) is not None
    ]
    if not shares:
        return None
    share = sum(each > REPEATED for each in shares) / len(shares)
    if share <= LIMIT:
        return None
    return Symptom(
        name="repeated_text",
        seen=f"{percent(share)} of {many(len(shares), 'answer')} repeat themselves.",
        cause="Greedy or nearly greedy sampling in a loop, or penalties that do not act.",
        fix=(
            "repetition_penalty 1.1 or frequency_penalty 0.3, or a higher temperature; "
            "tailbreak probe says whether the server honours them; scenarios/penalties.toml "
            "measures what they cost."
        ),
        strength=share / LIMIT,
        evidence=(
            Figure(what="share of answers that repeat themselves", value=share, unit="share"),
            Figure(
                what="mean share of repeated runs of words",
                value=sum(shares) / len(shares),
                unit="share",
            ),
        ),
    )


def repeated_share(text: str) -> float | None:
    """Share of runs of four words that came before in this text; None for a short one."""
    words = text.lower().split()
    if len(words) < SHORTEST:
        return None
    runs = [tuple(words[at : at + N_WORDS]) for at in range(len(words) - N_WORDS + 1)]
    return 1 - len(set(runs)) / len(runs)
