#!/usr/bin/env bash
# web-cost.sh [ROUNDS]: allreduces of 4 MiB over 8 hosts at 1 Gbit/s with and without the page of
# --web, in turn, and what they and the server take of the processors. A round takes 35 s; it
# prints how wide the noise of the rounds is (eight on an idle machine: about 4 % either way).
set -euo pipefail
cd "$(dirname "$0")/.."
exec .venv/bin/python -m tests.observe.web.cost "${1:-10}"
