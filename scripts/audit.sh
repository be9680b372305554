#!/usr/bin/env bash
# audit.sh: what `make lint` does not look for. Makes all checks that it can make.
#   0  all checks were made, and found nothing
#   1  a check found something
#   2  nothing was found, but a check could not be made; its message says what it needs
# Ruff's security rules, those of bandit, are part of `make lint`.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
status=0

record() { # 1 outranks 2
    case $1 in
        1) status=1 ;;
        2) ((status == 1)) || status=2 ;;
    esac
}

scripts/audit-packages.sh
record $?
scripts/audit-native.sh
record $?

case $status in
    0) echo "audit: nothing found" ;;
    1) echo "audit: see what was found above" >&2 ;;
    2) echo "audit: nothing found, but not all was checked; see above" >&2 ;;
esac
exit "$status"
