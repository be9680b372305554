#!/usr/bin/env bash
# Checks for what pip cannot install. As root, what is missing is installed with apt-get;
# otherwise the exact command is printed and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."

python=$(scripts/find-python.sh)
compiler=${CXX:-c++}
missing=()

# compiles CODE: whether the compiler accepts a C++20 translation unit.
compiles() {
    "$compiler" -std=c++20 -fsyntax-only -x c++ - <<<"$1" >/dev/null 2>&1
}

if ! compiles '#include <span>
#include <version>'; then
    missing+=(g++)
else
    compiles '#include <openssl/evp.h>' || missing+=(libssl-dev)
    compiles '#include <doctest/doctest.h>' || missing+=(doctest-dev)
fi
if [[ ${missing[*]} == g++ ]]; then
    # Without a compiler the headers cannot be looked for; apt-get leaves present ones alone.
    missing+=(libssl-dev doctest-dev)
fi

python_package="python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing+=("$python_package-venv")
"$python" -c 'import pathlib, sys, sysconfig
sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' ||
    missing+=("$python_package-dev")

if ((${#missing[@]} == 0)); then
    exit 0
fi

if ! command -v apt-get >/dev/null; then
    echo "Missing (named after Debian's packages): ${missing[*]}" >&2
    echo "Install them with this system's package manager, then run make again." >&2
    exit 1
fi
if ((EUID != 0)); then
    echo "Missing: ${missing[*]}. Install them, then run make again:" >&2
    echo "    sudo apt-get update && sudo apt-get install -y ${missing[*]} ccache" >&2
    exit 1
fi
echo "Installing ${missing[*]} ccache"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq "${missing[@]}" ccache >/dev/null
