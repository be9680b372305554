#!/usr/bin/env bash
# web-cost.sh [ROUNDS]: allreduces of 4 MiB over 8 hosts at 1 Gbit/s with and without the page of
# --web, in turn (without, with, with, without), and what they and the server take of the
# processors. It prints the median difference of the rounds and its 95 % interval, and says whether
# they tell that it is at most 2 %. A round takes 8 s; the 54 of the default take 7.5 minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
exec .venv/bin/python -m tests.observe.web.cost "${1:-54}"
