"""The words of `--pool`, and the share of the server's options that each pool gets."""

from pathlib import Path

import pytest
import torch

from harness.base.errors import ScenarioError, SetupError
from harness.cli.drive import server_options
from harness.scenario.read import read_scenario
from harness.server.device import on_device, present_devices, require_device
from harness.server.options import ServerOptions
from harness.server.pool_options import DEFAULT_POOLS, PoolOptions, read_pool
from harness.server.process import to_arguments

FULL = "big=cuda:1,seqs=64,batched_tokens=2048,kv_tokens=65536,threads=2,dtype=bfloat16"


@pytest.mark.parametrize("text", ["a=cpu", "fast-1=cpu,seqs=2", FULL, "x_9=npu:0,dtype=bfloat16"])
def test_words_are_read_and_written_alike(text: str) -> None:
    """What `read_pool` reads is written as the same words."""
    assert str(read_pool(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "", "cpu", "=cpu", "a=", "A=cpu", "a b=cpu", "a=CPU", "a=cuda:", "a=cuda:x", "a=cpu,",
        "a=cpu,seqs", "a=cpu,seqs=0", "a=cpu,seqs=257", "a=cpu,seqs=2,seqs=3", "a=cpu,warp=9",
        "a=cpu,dtype=float16", "a=cpu,kv_tokens=65", "a=cpu,name=b", "a=cpu,device=cpu",
        "a=cpu,threads=1.5", "a" * 33 + "=cpu", "a=../cpu",
    ],
)  # fmt: skip
def test_other_words_are_refused_with_what_is_allowed(text: str) -> None:
    """Unknown keys, values out of range, keys given twice: said with the words that came."""
    with pytest.raises(ValueError, match=r"is not allowed.*; allowed is NAME=DEVICE") as refused:
        read_pool(text)
    assert repr(text) in str(refused.value)


def test_pools_have_names_of_their_own_and_are_not_too_many() -> None:
    """A name given twice or a seventeenth pool is refused; none at all is one pool on the CPU."""
    for pools in (["a=cpu", "a=cpu,seqs=2"], [f"p{number}=cpu" for number in range(17)], "a=cpu"):
        with pytest.raises(ValueError, match=r"two pools|17 pools|no list"):
            ServerOptions.model_validate({"pool": pools})
    assert ServerOptions.model_validate({"pool": []}).pool == DEFAULT_POOLS == ServerOptions().pool


def test_options_with_pools_survive_their_ways() -> None:
    """Command line and engine frame give the pools that were meant."""
    options = ServerOptions.model_validate({"pool": ["a=cpu,seqs=2", FULL]})
    assert to_arguments(options) == ["--pool", "a=cpu,seqs=2", "--pool", FULL]
    assert ServerOptions.model_validate(options.model_dump(mode="json")) == options


def test_a_pool_takes_from_the_server_what_it_does_not_say() -> None:
    """Limits are the server's own unless named; pools without threads share the server's."""
    options = ServerOptions.model_validate(
        {"pool": ["a=cpu,seqs=2", "b=cpu,kv_tokens=640", "c=cpu,threads=3"], "threads": 5}
    )
    own = [options.of_pool(pool) for pool in options.pool]
    assert [each.max_num_seqs for each in own] == [2, 8, 8]
    assert [each.kv_tokens for each in own] == [2560, 640, 2560]
    assert [each.threads for each in own] == [2, 2, 3]
    assert [each.pool[0].name for each in own] == ["a", "b", "c"]
    assert ServerOptions(threads=1).of_pool(DEFAULT_POOLS[0]) == ServerOptions(threads=1)


def test_a_scenario_names_pools(tmp_path: Path) -> None:
    """`[target.server] pool` reaches the server's options; a bad word names file and key."""
    text = (Path(__file__).parents[3] / "scenarios/quickstart.toml").read_text()
    head = "[target.server]"
    assert head in text
    file = tmp_path / "x.toml"
    file.write_text(text.replace(head, f'{head}\npool = ["a=cpu", "b=cpu,seqs=2"]'))
    assert [pool.name for pool in server_options(read_scenario(file), "x.toml").pool] == ["a", "b"]
    file.write_text(text.replace(head, f'{head}\npool = ["a=cpu,warp=9"]'))
    with pytest.raises(ScenarioError, match=r"x.toml.*target\.server\.pool.*'a=cpu,warp=9' is not"):
        server_options(read_scenario(file), "x.toml")


@pytest.mark.parametrize("name", ["cuda:93", "npu", "warp:1", "meta", "privateuseone"])
def test_an_absent_device_is_refused_with_those_that_are_here(name: str) -> None:
    """The message names the pool, the device, torch's reason and this machine's devices."""
    with pytest.raises(SetupError, match=rf"--pool big={name}: no such device \(.+\)") as refused:
        require_device(name, "big")
    assert ", ".join(present_devices()) in str(refused.value)


def test_the_cpu_is_a_device_and_moves_nothing() -> None:
    """What is on the CPU already is handed on as it is."""
    assert require_device("cpu", "a") == torch.device("cpu")
    value = (torch.zeros(1), None)
    assert on_device(value, torch.device("cpu")) is value


def test_every_tensor_of_a_steps_inputs_is_moved() -> None:
    """Nested tuples and lists keep their kinds; tensors change device, the rest stays."""
    pool = PoolOptions(name="a", device="cpu")
    moved = on_device(([torch.zeros(2)], None, pool), torch.device("meta"))
    assert moved[0][0].device.type == "meta"
    assert moved[1:] == (None, pool)
