"""What serving costs beside the work itself, every figure a ratio within one run.

    python -m tools.bench_server [decode] [penalties] [prefill] [stream] [--quick] [--json FILE]

Contenders take turns; a ratio is the median over blocks with its 95 % interval. One thread runs.
"""

import argparse
import json
import os
from pathlib import Path

import torch

from harness.server.checkpoint import load_model
from harness.server.options import ServerOptions
from kernels import cpu
from tools.bench_server.decode import compare_decode, compare_penalties
from tools.bench_server.effort import FULL, QUICK
from tools.bench_server.prefill import compare_prefill
from tools.bench_server.stream import compare_streams

BATCHES = (1, 4, 8, 16)
PARTS = {
    "decode": lambda model, effort: compare_decode(model, BATCHES, (64, 256, 1024), effort),
    "penalties": lambda model, effort: compare_penalties(model, (1, 8, 16), 128, effort),
    "prefill": lambda model, effort: compare_prefill(model, (128, 512, 1024), effort),
    "stream": lambda model, effort: compare_streams(model, (1, 4, 16), effort),
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="tools.bench_server", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter blocks")
    parser.add_argument("--json", type=Path, help="also write the tables here")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"parts: got {', '.join(unknown)}, allowed {', '.join(PARTS)}")
    effort = QUICK if options.quick else FULL
    torch.set_num_threads(1)
    model = load_model(ServerOptions().model_folder)
    native = cpu.PROBLEM or "native kernels"
    print(f"{effort.n_blocks} blocks; torch {torch.__version__}; {native}; {os.cpu_count()} cores")
    tables = [PARTS[name](model, effort) for name in options.parts or PARTS]
    if options.json:
        document = {table.name: table.to_json() for table in tables}
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
