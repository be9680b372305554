#!/usr/bin/env bash
# Checks for what pip cannot install. As root, what is missing is installed with apt-get;
# otherwise the exact command is printed and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."

# Not needed, but worth having when something is installed at all: builds, Ed25519 and GMAC are
# faster.
optional="ccache libsodium-dev"
[[ $(uname -m) != x86_64 ]] || optional+=" libipsec-mb-dev"
readonly optional

python=$(scripts/find-python.sh)
compiler=${CXX:-c++}

# compiles CODE: whether the compiler accepts it as a C++20 translation unit.
compiles() {
    "$compiler" -std=c++20 -fsyntax-only -x c++ - <<<"$1" >/dev/null 2>&1
}

# Prints Debian's names of the packages that are missing. Without a compiler the headers cannot be
# looked for, so they are named with it; apt-get leaves alone what is there.
missing_packages() {
    if ! compiles '#include <span>'; then
        echo g++ libssl-dev doctest-dev
    else
        compiles '#include <openssl/evp.h>' || echo libssl-dev
        compiles '#include <doctest/doctest.h>' || echo doctest-dev
    fi
    local package
    package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo "$package-venv"
    "$python" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
        echo "$package-dev"
}

missing=$(missing_packages | xargs)
[[ -z $missing ]] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "Missing, by Debian's names: $missing." >&2
    echo "Install them with this system's package manager, then run make again." >&2
    exit 1
fi
if ((EUID != 0)); then
    echo "Missing: $missing. Install them, then run make again:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y $missing $optional" >&2
    exit 1
fi

echo "Installing $missing $optional"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# shellcheck disable=SC2086  # package names, one word each
apt-get install -y -qq $missing $optional >/dev/null

missing=$(missing_packages | xargs)
if [[ -n $missing ]]; then
    echo "Still missing after installation: $missing." >&2
    echo "Does '$compiler' (\$CXX) compile C++20, and is '$python' (\$PYTHON) complete?" >&2
    exit 1
fi
