#!/usr/bin/env bash
# Prints our C++ files, one on a line.
set -euo pipefail
cd "$(dirname "$0")/.."
find . \( -path ./build -o -path ./.venv -o -path ./.git \) -prune -o \
    \( -name '*.cpp' -o -name '*.hpp' \) -print
