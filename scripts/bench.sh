#!/usr/bin/env bash
# Runs every benchmark in its quick mode, one after the other: they share the machine's cores.
set -euo pipefail
cd "$(dirname "$0")/.."

for benchmark in benchmarks/*.py; do
    echo "== $benchmark"
    .venv/bin/python "$benchmark" --quick
done
