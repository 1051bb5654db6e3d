import json
import subprocess
from pathlib import Path

import pytest

from harness.records.fidelity import Fidelity
from tests.cli_process import command

pytestmark = pytest.mark.e2e
SMALL = ("fidelity", "--draws", "64", "--threads", "1", "--max-num-seqs", "4")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*SMALL, *arguments), capture_output=True, text=True, timeout=300, check=False
    )


def test_several_paths_in_one_comparison(tmp_path: Path) -> None:
    """Each path has its table and verdict, within 80 columns; the file holds the figures."""
    file = tmp_path / "fidelity.json"
    done = run("--features", "paged_kv", "--features", "TRUE", "--json", str(file))
    assert done.returncode == 0, done.stderr
    for asked in ("paged_kv", "true"):
        assert f"tiny: {asked} (" in done.stdout
        assert f"{asked}: the same answers as the baseline" in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    found = Fidelity.model_validate(json.loads(file.read_text()))
    assert [path.asked for path in found.paths] == ["paged_kv", "true"]
    assert found.options["max_num_seqs"] == 4
    assert {setting.name for setting in found.paths[0].settings} >= {"greedy", "penalties"}
    assert found.paths[0].settings[2].draws is not None


def test_a_pool_of_another_dtype_is_held_to_limits_of_its_own(tmp_path: Path) -> None:
    """Its engine computes in bfloat16: close to the baseline, and never the same."""
    pools = ("--pool", "full=cpu,seqs=3", "--pool", "half=cpu,dtype=bfloat16")
    file = tmp_path / "fidelity.json"
    done = run(*pools, "--features", "true,device_pool:bf16", "--json", str(file))
    assert done.returncode == 0, done.stderr
    found = Fidelity.model_validate_json(file.read_bytes())
    (path,) = found.paths
    assert found.options["max_num_seqs"] == 3
    assert path.lossy == ["device_pool:bf16"]
    for setting in path.settings:
        assert setting.positions.kl.mean is not None
        assert 1e-6 < setting.positions.kl.mean < 5e-4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--features", "warp"), "--features warp: X-MC-Accel: got 'warp', allowed false, true"),
        (("--baseline-features", "prefix_cache"), "without 'paged_kv'"),
        (("--json", "/nowhere/x.json"), "there is no folder"),
        (("--max-model-len", "32"), "raise them"),
        (
            ("--pool", "half=cpu,dtype=bfloat16", "--pool", "full=cpu"),
            "got a first pool half=cpu,dtype=bfloat16, allowed one on cpu in float32",
        ),
        (("--features", "device_pool:bf16"), "got 'device_pool:bf16', allowed false, true"),
        (("--pool", "a=cpu", "--pool", "a=cpu"), "['a=cpu', 'a=cpu'], two pools are named a"),
    ],
)
def test_bad_input_ends_with_two_and_a_reason(arguments: tuple[str, ...], said: str) -> None:
    """What came and what is allowed is told, and nothing is compared."""
    done = run(*arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stdout == ""
