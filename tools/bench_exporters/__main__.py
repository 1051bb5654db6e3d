"""What watching costs: processor time of exporters, and of what they watch.

    python -m tools.bench_exporters [page] [run] [server] [gpu] [scrape] [--quick] [--json FILE]

Processor time, not wall time; what is compared takes turns; medians, with the number of blocks.
"""

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

from tools.bench_exporters.gpu_exporter import measure_gpus
from tools.bench_exporters.load_page import measure_page
from tools.bench_exporters.load_run import compare_runs
from tools.bench_exporters.metrics_pages import measure_pages
from tools.bench_exporters.server_metrics import measure_server
from tools.bench_server.table import Table

PARTS: dict[str, Callable[[int], tuple[Table, ...]]] = {
    "page": lambda n_blocks: (measure_page(n_blocks),),
    "run": lambda n_blocks: (compare_runs(n_blocks),),
    "server": measure_server,
    "scrape": lambda n_blocks: (measure_pages(n_blocks),),
    "gpu": lambda n_blocks: (measure_gpus(n_blocks),),
}
"""Each takes the number of blocks and returns its tables."""
N_BLOCKS, N_BLOCKS_QUICK = 11, 3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="tools.bench_exporters", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all of them by default")
    parser.add_argument("--quick", action="store_true", help=f"{N_BLOCKS_QUICK} blocks")
    parser.add_argument("--json", type=Path, help="also write the tables here")
    options = parser.parse_args()
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"parts: got {', '.join(unknown)}, allowed {', '.join(PARTS)}")
    n_blocks = N_BLOCKS_QUICK if options.quick else N_BLOCKS
    print(f"{n_blocks} blocks; {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    tables = [table for name in options.parts or PARTS for table in PARTS[name](n_blocks)]
    if options.json:
        document = {table.name: table.to_json() for table in tables}
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
