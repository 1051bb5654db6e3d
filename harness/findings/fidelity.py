"""Whether accelerated answers are the baseline's: without that, no path is called faster.

Read from what was compared before the load (`harness.records.fidelity`). A path that failed has no
speed-up to tell, whatever its times are; a path that was not compared is told with that caveat.
"""

from collections.abc import Iterable
from typing import Final

from harness.findings.evidence import Evidence
from harness.findings.finding import Answers, Cell
from harness.findings.words import path_name
from harness.records.fidelity import Path
from harness.scenario.acceleration import ALL, FACTOR, Asked, header

PROBLEMS_SAID: Final = 2


def judge_answers(evidence: Evidence, asked: Iterable[Asked]) -> list[Answers]:
    """What is known of the answers of each value of `accelerated`, each once, in order."""
    return [_judge(evidence, value) for value in dict.fromkeys(asked)]


def differs(evidence: Evidence, cells: Iterable[Cell]) -> bool:
    """Whether one of these cells ran what does not answer as the baseline does."""
    found = (_compared(evidence, cell.factors.get(FACTOR, False)) for cell in cells)
    return any(path is not None and path.problems for path in found)


def answers_sentence(found: Answers) -> str:
    """What the verdict says of a path whose answers differ; empty for any other."""
    if found.verdict != "differs":
        return ""
    first, rest = found.problems[:PROBLEMS_SAID], len(found.problems) - PROBLEMS_SAID
    where = "; ".join([*first, *([f"and {rest} more"] if rest > 0 else [])])
    return (
        f"{_subject(found.asked)} gives other answers than the baseline ({where}): its times are "
        "no speed-up."
    )


def told_answers(found: Iterable[Answers]) -> list[str]:
    """`paged_kv, accelerated: the same answers`, those of one kind in one line."""
    lines: dict[str, list[str]] = {}
    for each in found:
        said = "; ".join([each.said, *each.problems[:PROBLEMS_SAID]])
        lines.setdefault(said, []).append(path_name(each.asked))
    return [f"{', '.join(names)}: {said}" for said, names in lines.items()]


def _judge(evidence: Evidence, asked: Asked) -> Answers:
    path = _compared(evidence, asked)
    if path is None:
        return Answers(asked=asked, verdict="not checked", said=_unchecked(evidence), problems=[])
    said = {
        "same": "compared before the load: the same answers as the baseline",
        "within limits": f"compared before the load: within the limits of {', '.join(path.lossy)}",
        "differs": "compared before the load: other answers than the baseline",
    }[path.verdict]
    return Answers(asked=asked, verdict=path.verdict, said=said, problems=path.problems)


def _compared(evidence: Evidence, asked: object) -> Path | None:
    """The comparison of this value; None where there is none."""
    if evidence.fidelity is None or not isinstance(asked, bool | str):
        return None
    return next((path for path in evidence.fidelity.paths if path.asked == header(asked)), None)


def _unchecked(evidence: Evidence) -> str:
    is_bundled = evidence.run.get("is_bundled", evidence.scenario.target.url is None)
    how = (
        "fidelity = true in the scenario compares them"
        if is_bundled
        else ("only those of the bundled server can be")
    )
    return f"whether the answers are the baseline's was not compared; {how}"


def _subject(asked: Asked) -> str:
    name = path_name(asked)
    return f"The {name} path" if header(asked) == ALL else name
