"""Answers come empty, or end before they are whole."""

from typing import Final

from harness.findings.quantity import many, percent
from harness.findings.symptoms.symptom import Context, Figure, Symptom
from harness.records.request import Outcome

BROKEN: Final = (
    Outcome.EMPTY_SUCCESS, Outcome.TRUNCATED, Outcome.IN_STREAM_ERROR, Outcome.RESET,
)  # fmt: skip
LIMIT: Final = 0.01


def check(context: Context) -> Symptom | None:
    """Fires where over 1 % of the requests got an empty answer or a part of one."""
    rows = context.records
    if rows is None or "outcome" not in rows or not len(rows):
        return None
    counts = {each: int((rows["outcome"] == each.value).sum()) for each in BROKEN}
    share = sum(counts.values()) / len(rows)
    if share <= LIMIT:
        return None
    told = ", ".join(f"{n} {each.value}" for each, n in counts.items() if n)
    return Symptom(
        name="broken_answers",
        seen=f"{percent(share)} of {many(len(rows), 'request')} got no whole answer: {told}.",
        cause="A proxy's time limit, an engine that dies or is restarted, a stop word met at once.",
        fix=(
            "Compare with the server's own count of finished requests: more there means a proxy "
            "cuts; raise its time limit. For empty answers look at stop words and the template."
        ),
        strength=share / LIMIT,
        evidence=(
            Figure(what="share of requests without a whole answer", value=share, unit="share"),
            *(Figure(what=each.value, value=float(n)) for each, n in counts.items() if n),
        ),
    )
