"""The topology that NVML tells: rings, a link that is down, switches, speeds of two generations."""

from pathlib import Path

from harness.cli.topology import keep_topology
from harness.export.nvml.session import nvml
from harness.export.nvml.topology import read_topology
from harness.records.run import RunFolder
from harness.records.topology import Pair, Topology
from harness.records.topology import read_topology as read_file
from tests.nvml.fake import A100, TWO_RINGS, loaded, needs_compiler

pytestmark = needs_compiler


def topology(folder: Path, scenario: Path, seconds: float = 0) -> Topology:
    with loaded(scenario, folder / "clock") as clock, nvml({}) as devices:
        clock.set(seconds)
        return read_topology(devices)


def pairs(found: Topology) -> dict[tuple[int, int], Pair]:
    return {pair.gpus: pair for pair in found.pairs}


def test_two_rings_are_read_as_they_are(tmp_path: Path) -> None:
    """Six links of 26.562 GB/s to each neighbour, none across; PCIe 5.0 x16 for the rest."""
    found = topology(tmp_path, TWO_RINGS)
    told = pairs(found)
    assert len(told) == 28
    joined = {each for each, pair in told.items() if pair.nvlinks}
    assert joined == {(0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (5, 6), (6, 7), (4, 7)}
    assert told[0, 1] == Pair(
        gpus=(0, 1), nvlinks=6, bytes_per_second=6 * 26562e6, path="PHB", has_p2p=True
    )
    assert told[3, 4] == Pair(gpus=(3, 4), path="SYS", has_p2p=True)
    assert found.host_bytes_per_second == 16 * 3938e6


def test_the_committed_file_is_this_machine(tmp_path: Path) -> None:
    """`two_rings.json`, which the docs split a batch over, is what NVML tells."""
    assert read_file(TWO_RINGS.with_suffix(".json")) == topology(tmp_path, TWO_RINGS)


def test_a_link_that_is_down_is_not_counted(tmp_path: Path) -> None:
    """GPU 1's link 11 to GPU 0 is down from 3 s on: what both ends have is five."""
    assert pairs(topology(tmp_path, TWO_RINGS, 4))[0, 1].nvlinks == 5


def test_switched_gpus_reach_each_other_by_all_links(tmp_path: Path) -> None:
    """Twelve links into a switch; their speed is not told, and neither is PCIe's."""
    found = topology(tmp_path, A100)
    (pair,) = found.pairs
    assert (pair.nvlinks, pair.bytes_per_second, pair.path) == (12, None, None)
    assert found.host_bytes_per_second is None


def test_a_run_keeps_the_topology(tmp_path: Path) -> None:
    """`topology.json` in the run folder reads back as what NVML told; no file without a GPU."""
    run = RunFolder.create(tmp_path, "run")
    with loaded(TWO_RINGS, tmp_path / "clock"):
        keep_topology(run)
    assert read_file(run.path / "topology.json") == topology(tmp_path, TWO_RINGS)
    bare = RunFolder.create(tmp_path, "bare")
    keep_topology(bare)
    assert not (bare.path / "topology.json").exists()
