"""What `tailbreak slo check` prints of many verdicts."""

import pytest

from harness.cli.slo import _show
from harness.findings.slo import Judged, Kept


def judged(cell: str, verdict: Kept, reason: str = "") -> Judged:
    return Judged(
        objective="first-token", metric="ttft_s", limit_s=0.5, target=0.99, cell=cell, factors={},
        n=100, n_effective=90.0, good=None, verdict=verdict, reason=reason,
    )  # fmt: skip


def test_undecided_cells_share_a_line_and_missed_ones_have_their_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The first with its reason, the others by their number; every miss is told."""
    few = [judged(f"c{n}", "undecided", "90 independent requests; 299 needed") for n in range(5)]
    _show([*few, judged("c8", "missed"), judged("c9", "missed")])
    lines = " ".join(capsys.readouterr().out.split())
    assert "undecided first-token, c0; 90 independent requests; 299 needed; and in 4 cells" in lines
    assert lines.count("undecided first-token,") == 1
    assert lines.count("missed first-token,") == 2
