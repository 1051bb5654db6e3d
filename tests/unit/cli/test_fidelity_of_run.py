from harness.cli.fidelity_of_run import _command
from harness.server.options import ServerOptions


def test_answers_are_compared_with_the_server_s_own_pools() -> None:
    """The comparison gets every pool as it was written, and the sizes they share."""
    pools = ["fast=cpu,seqs=3,kv_tokens=1024,threads=1", "half=cpu,dtype=bfloat16"]
    options = ServerOptions.model_validate({"pool": pools, "max_num_seqs": 16})
    words = _command(options, ["true"], 7)
    assert {"--max-num-seqs=16", "--seed=7", *(f"--pool={pool}" for pool in pools)} <= set(words)
    assert "--features=true" in words
