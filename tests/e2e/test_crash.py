"""Runs that are killed, and what becomes of them."""

from pathlib import Path

import pytest

from tests.e2e.crash import crash_chain, is_clean, lines_of

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


def test_a_run_killed_five_times_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """After each kill: all acknowledged rows, none twice, said partial; at last the whole plan."""
    chain = crash_chain(tmp_path, seed=8, n_kills=5, requests_per_cell=500, max_delay_s=2.0)
    told = "\n".join(lines_of([chain]))
    assert sum(kill.n_acknowledged for kill in chain.kills) > 0, told
    assert is_clean(chain), told
