import subprocess
import sys
from pathlib import Path

import pytest
import torch

from kernels.broadcast import broadcast

RANK = """
import sys, torch
from torch import distributed
from kernels.backend import record_calls
from kernels.broadcast import broadcast
rank, store, what = int(sys.argv[1]), sys.argv[2], sys.argv[3]
distributed.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
try:
    if what == "vector":
        vector = torch.arange(5000.0) * (rank + 1)
        with record_calls() as calls:
            seen = broadcast(vector, source=1)
        assert calls == [("broadcast", "torch")]
        assert torch.equal(vector, torch.arange(5000.0) * 2), vector
        assert seen.n_bytes == 20000 and seen.wait_ns > 0 and seen.transfer_ns > 0
    elif what == "mask":
        mask = torch.full((7,), bool(rank))
        broadcast(mask)
        assert not mask.any()
    elif what == "late":
        import time
        if rank == 1:
            time.sleep(0.5)
        seen = broadcast(torch.zeros(10))
        waited = seen.wait_ns > 0.3e9
        assert waited == (rank == 0), seen
    else:
        vector = torch.full((3 + rank,), float(rank))
        try:
            broadcast(vector)
        except ValueError as error:
            print(error)
            assert (vector == rank).all()
finally:
    distributed.destroy_process_group()
"""


def run_ranks(folder: Path, what: str) -> list[str]:
    """Two processes of one gloo group; what each printed."""
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank), str(folder / "store"), what],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    said = [rank.communicate(timeout=120) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    return [out for out, _ in said]


@pytest.mark.parametrize("what", ["vector", "mask"])
def test_every_rank_has_the_sources_vector(tmp_path: Path, what: str) -> None:
    """Two real processes hold the same bytes afterwards, and each was timed."""
    run_ranks(tmp_path, what)


def test_a_rank_that_is_late_makes_the_others_wait_and_not_their_transfer(tmp_path: Path) -> None:
    """The wait for a late rank is told apart, on the rank that waited."""
    run_ranks(tmp_path, "late")


def test_ranks_that_disagree_are_told_and_nothing_is_overwritten(tmp_path: Path) -> None:
    """Different lengths raise on every rank, with all lengths named, before anything is sent."""
    for said in run_ranks(tmp_path, "lengths"):
        assert "rank 0: 3 x torch.float32, rank 1: 4 x torch.float32" in said


def test_without_a_group_it_says_what_is_missing() -> None:
    """A forgotten initialisation is named, not hung on."""
    with pytest.raises(RuntimeError, match="init_process_group first"):
        broadcast(torch.zeros(3))
