import pytest

from harness.base.errors import SetupError
from harness.cli.fidelity_of_run import _command, _compared
from harness.server.options import ServerOptions


def test_answers_are_compared_with_the_sizes_of_the_first_pool() -> None:
    """Slots, step and KV are those of the engine that the baseline runs in, not the server's."""
    options = ServerOptions.model_validate(
        {"pool": ["fast=cpu,seqs=3,kv_tokens=1024,threads=1", "bulk=cpu"], "max_num_seqs": 16}
    )
    words = _command(_compared(options), ["true"], 7)
    assert {"--max-num-seqs=3", "--kv-tokens=1024", "--threads=1", "--seed=7"} <= set(words)
    assert "--features=true" in words


def test_a_first_pool_that_cannot_be_compared_is_refused() -> None:
    """Answers of another dtype are not told to be the same because float32's are."""
    options = ServerOptions.model_validate({"pool": ["half=cpu,dtype=bfloat16", "full=cpu"]})
    with pytest.raises(SetupError, match="half=cpu,dtype=bfloat16, allowed one on cpu in float32"):
        _compared(options)
