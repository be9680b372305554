#!/usr/bin/env bash
# setup-venv.sh VENV: makes the virtual environment and installs the build requirements into it,
# because the editable build runs without isolation (its CMake cache must outlive one call).
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    python=$(scripts/find-python.sh)
    echo "Creating $venv with $("$python" --version)"
    "$python" -m venv --clear "$venv"
fi

mapfile -t requirements < <("$venv/bin/python" -c 'import tomllib
with open("pyproject.toml", "rb") as file:
    print(*tomllib.load(file)["build-system"]["requires"], sep="\n")')
echo "Installing the build requirements"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    "${requirements[@]}" 'cmake>=3.26' ninja
