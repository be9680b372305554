#!/usr/bin/env bash
# web-cost.sh [ROUNDS]: allreduces of 4 MiB over 8 hosts at 1 Gbit/s with and without the page of
# --web, in turn, and the processor time that its server takes.
set -euo pipefail
cd "$(dirname "$0")/.."
exec .venv/bin/python -m tests.observe.web.cost "${1:-3}"
