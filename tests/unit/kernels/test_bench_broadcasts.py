import subprocess
import sys

import numpy as np
import psutil
import pytest

from kernels.bench.broadcasts import _rows, broadcast_under_load, time_broadcasts
from kernels.bench.ranks import run_ranks


def test_a_call_takes_as_long_as_its_slowest_rank() -> None:
    """By hand: ranks of 1 and 3 us make 3 us; torch's 6 us are twice ours."""
    spent = np.zeros((2, 6, 2, 1, 2))
    spent[0, :, 0], spent[1, :, 0], spent[1, :, 1] = 1000, [3000, 2000], 6000
    ours, torchs = _rows(2, 4000, spent)
    assert (ours.who, ours.latency.value, ours.transfer.value) == ("tailbreak", 3e-6, 2e-6)
    assert ours.torch_takes.value == pytest.approx(2.0)
    assert ours.bytes_per_s == pytest.approx(4000 / 2e-6)
    assert (torchs.latency.value, torchs.torch_takes.value) == (6e-6, 1.0)


def test_real_ranks_are_timed() -> None:
    """Two sizes over two processes: two rows each; ours holds its transfer and the agreement."""
    rows = time_broadcasts(2, [4096, 1 << 20], n_rounds=6, slice_s=0.002)
    assert [(row.n_bytes, row.who) for row in rows] == [
        (4096, "tailbreak"), (4096, "torch"), (1 << 20, "tailbreak"), (1 << 20, "torch"),
    ]  # fmt: skip
    for ours, torchs in (rows[:2], rows[2:]):
        assert 0 < ours.transfer.value < ours.latency.value
        assert torchs.transfer == torchs.latency
        assert ours.latency.low <= ours.latency.value <= ours.latency.high < 10
        assert ours.n_rounds == 6


def test_the_load_is_there_when_it_is_asked_for() -> None:
    """At level 1 the load moves far more bytes than at level 0; each level has its latency."""
    blocks = broadcast_under_load(2, 4096, "memory", [0.0, 1.0, 0.0], slice_s=0.1, n_loads=1)
    assert [block.level for block in blocks] == [0.0, 1.0, 0.0]
    assert blocks[1].bytes_per_s > 3 * max(blocks[0].bytes_per_s, blocks[2].bytes_per_s)
    assert all(0 < block.latency_s < 10 for block in blocks)


def test_a_load_ends_with_the_process_that_began_it() -> None:
    """Killed outright, it leaves nobody behind who burns the machine."""
    script = (
        "import time\nfrom kernels.bench.memory_load import loading\n"
        "if __name__ == '__main__':\n"
        "    with loading('memory', 1) as load:\n"
        "        load.level = 0.1\n        print('up', flush=True)\n        time.sleep(60)\n"
    )
    owner = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "up\n"
    loads = psutil.Process(owner.pid).children(recursive=True)
    assert loads
    owner.kill()
    owner.communicate(timeout=30)
    _, alive = psutil.wait_procs(loads, timeout=30)
    assert not alive


def test_a_rank_that_fails_ends_them_all() -> None:
    """Its words come back and nobody hangs."""
    with pytest.raises(RuntimeError, match="a rank failed: ZeroDivisionError"):
        run_ranks(2, divmod, 0)
