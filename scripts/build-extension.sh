#!/usr/bin/env bash
# build-extension.sh [EXTRAS]: compiles innet._native._core and installs the package in editable
# mode with its dependencies, and with those of EXTRAS, such as dev,demo.
# Called again it compiles what changed and finds every dependency in place.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Building the compiled module, and installing missing dependencies (minutes, once)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
    --editable ".${1:+[$1]}"
mkdir -p build
