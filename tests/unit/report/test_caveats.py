from harness.report.caveats import gather_caveats
from tests.unit.report.make_report import make_report


def test_the_same_doubt_of_many_cells_is_told_once() -> None:
    """Caveats that differ in the cell only become one line, in the order of the first."""
    doubts = [f"c{i:02d}: one start only" for i in range(6)]
    report = make_report(caveats=["a doubt: of the run", *doubts, "c00: late", "c03: late"])
    assert gather_caveats(report) == [
        "a doubt: of the run",
        "6 cells: one start only",
        "c00, c03: late",
    ]


def test_none() -> None:
    """No caveat, no line."""
    assert gather_caveats(make_report(caveats=[])) == []
