#!/usr/bin/env bash
# Installs the Debian packages that some tests start, where this user may. Without them those tests skip
# and say why.
set -u
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
    echo "test: installing chromium (Debian package)"
    apt-get -qq update >/dev/null 2>&1
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null 2>&1 ||
        echo "test: chromium could not be installed; the browser tests will skip" >&2
else
    echo "test: chromium is missing and this user cannot install it; the browser tests will skip" >&2
fi
exit 0
