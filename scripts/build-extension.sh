#!/usr/bin/env bash
# Compiles innet._native._core and installs the package in editable mode with its dependencies.
# Called again it compiles what changed and finds every dependency in place.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "Building the compiled module and installing dependencies (PyTorch takes a minute, once)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation \
    --editable '.[dev,demo]'
