#!/usr/bin/env bash
# Compiles innet._native._core and installs the package in editable mode with its dependencies.
# Called again it compiles what changed and finds every dependency in place.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Building the compiled module"
if [[ ! -x .venv/bin/innet ]]; then
    echo "Installing the dependencies (about a minute, once)"
fi
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
    --editable ".[${EXTRAS:-dev,demo}]"
