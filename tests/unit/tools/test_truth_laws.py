from typing import Any

import pytest

from harness.server.truth.law import Law, read_law
from tests.unit.report.make_report import make_cell, make_jump, make_report
from tools.truth_laws import LAWS, LawRun

GRID = (64, 128, 256, 512, 1024)


def law_run(law: Law, *, is_void: bool = False, **found: Any) -> LawRun:
    """A run that found this."""
    cells = [make_cell(f"c{x}", {"prompt_tokens": x}, 0.1) for x in GRID]
    if is_void:
        cells[2] = cells[2].model_copy(update={"state": "invalid-client"})
    curve = make_jump(axis="prompt_tokens", at={}).model_copy(update=found)
    return LawRun(law=law, report=make_report(cells=cells, breakpoints=[curve]))


@pytest.mark.parametrize(
    ("found", "judgement"),
    [
        ({"kind": "jump", "location": 362.0}, "right"),
        ({"kind": "jump", "location": 512.0}, "right"),
        ({"kind": "jump", "location": 900.0}, "misplaced"),
        ({"kind": "kink", "location": 362.0}, "wrong kind"),
        ({"kind": "gradual", "location": 362.0}, "wrong kind"),
        ({"kind": "none", "location": None, "detectable_effect": 0.2}, "missed"),
        ({"kind": "none", "location": None, "detectable_effect": 0.5}, "undecided"),
        ({"kind": "none", "location": None, "detectable_effect": None}, "undecided"),
    ],
)
def test_a_report_on_a_jump_of_40_percent_at_300_is_judged(
    found: dict[str, Any], judgement: str
) -> None:
    """Kind, place within a step, and whether "none" said that it could not tell."""
    assert law_run(read_law(LAWS / "jump.toml"), **found).judge() == judgement


def test_cells_left_out_as_void_leave_a_missed_break_undecided() -> None:
    """The report says that its client was late: it claims nothing, and that is right."""
    law = read_law(LAWS / "jump.toml")
    found = {"kind": "none", "location": None, "detectable_effect": 0.2}
    assert law_run(law, is_void=True, **found).judge() == "undecided"


def test_a_break_where_nothing_is_planted_is_never_excused() -> None:
    """Void cells or not: a false break is wrong."""
    law = read_law(LAWS / "smooth.toml")
    assert law_run(law, kind="none", location=None).judge() == "right"
    assert law_run(law, kind="jump", location=300.0, is_void=True).judge() == "wrong kind"
