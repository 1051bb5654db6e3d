#!/usr/bin/env bash
# Virtual environment and install. Usage: setup.sh PYTHON VENV
set -euo pipefail
python=$1 venv=$2

"$python" - <<'PY' || { echo "tailbreak needs Python 3.11 or newer with venv; try: make setup PYTHON=python3.11" >&2; exit 2; }
import sys, venv
sys.exit(sys.version_info < (3, 11))
PY

[ -x "$venv/bin/python" ] || "$python" -m venv "$venv"
pip=("$venv/bin/python" -m pip --disable-pip-version-check)

torch=$(sed -n 's/^torch==//p' constraints.txt)
if ! "$venv/bin/python" -c "import importlib.metadata as m; assert m.version('torch').split('+')[0] == '$torch'" 2>/dev/null; then
    # torch first: whatever depends on it would otherwise bring the newest, CUDA, build along.
    size=$("${pip[@]}" install --dry-run --quiet --report - "torch==$torch" 2>/dev/null | "$venv/bin/python" -c '
import json, sys
names = [item["metadata"]["name"] for item in json.load(sys.stdin)["install"]]
cuda = [name for name in names if name.startswith(("nvidia-", "cuda-", "triton"))]
print(f"with {len(cuda)} CUDA packages, several GB" if cuda else "the CPU build, about 200 MB")' || echo "of unknown size")
    echo "setup: torch $torch will be downloaded: $size"
    case $size in *CUDA*)
        echo "setup: for the CPU build instead: pip install torch==$torch --index-url <PyTorch's CPU index>, then make setup again" ;;
    esac
    "${pip[@]}" install --quiet "torch==$torch"
fi
[ "${TAILBREAK_NATIVE:-}" = 0 ] && kernels="without its native kernels (TAILBREAK_NATIVE=0)" || kernels="with its native kernels (some 20 s)"
echo "setup: installing tailbreak and its tools, $kernels"
"${pip[@]}" install --quiet --constraint constraints.txt --editable '.[dev]'
echo "setup: done; try: make demo"
