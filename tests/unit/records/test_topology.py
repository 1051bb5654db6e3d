"""The file that says how GPUs are connected: round trip, and every wrong line told."""

import json
from pathlib import Path

import pytest

from harness.base.errors import ScenarioError, SetupError
from harness.records.topology import Gpu, Pair, Topology, read_topology, topology_json

TWO = Topology(
    gpus=(Gpu(gpu=0, uuid="GPU-a"), Gpu(gpu=1)),
    pairs=(Pair(gpus=(0, 1), nvlinks=4, bytes_per_second=1e11, path="PHB"),),
    host_bytes_per_second=25e9,
)


def test_it_is_read_as_it_was_written(tmp_path: Path) -> None:
    """What is not told is null, and null when it is read."""
    path = tmp_path / "topology.json"
    path.write_text(topology_json(TWO))
    assert read_topology(path) == TWO
    assert json.loads(path.read_text())["pairs"][0]["has_p2p"] is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "Invalid JSON"),
        ('{"schema": 2, "gpus": [{"gpu": 0}]}', "schema"),
        ('{"schema": 1, "gpus": []}', "gpus"),
        ('{"schema": 1, "gpus": [{"gpu": 1}]}', "numbered 0, 1, 2"),
        ('{"schema": 1, "gpus": [{"gpu": 0}], "pairs": [{"gpus": [0, 1]}]}', "pair [0, 1]"),
        ('{"schema": 1, "gpus": [{"gpu": 0}, {"gpu": 1}], "pairs": [{"gpus": [1, 0]}]}', "[1, 0]"),
        ('{"schema": 1, "gpus": [{"gpu": 0}], "host_bytes_per_second": -1}', "greater than 0"),
        ('{"schema": 1, "gpus": [{"gpu": 0}], "more": 1}', "more"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, text: str, told: str) -> None:
    """Where, what came, what is allowed and where such a file comes from."""
    path = tmp_path / "topology.json"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        read_topology(path)
    assert told in str(caught.value)
    assert "tailbreak topology --json" in str(caught.value)


def test_a_file_beyond_bounds_is_refused(tmp_path: Path) -> None:
    """More than a megabyte is no topology; a missing file is told."""
    path = tmp_path / "topology.json"
    path.write_bytes(b" " * 1_000_001)
    with pytest.raises(SetupError, match="not a topology"):
        read_topology(path)
    with pytest.raises(SetupError, match="cannot be read"):
        read_topology(tmp_path / "none.json")
