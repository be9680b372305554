#!/usr/bin/env bash
# Prints the first Python of at least 3.11; $PYTHON, when set, is asked first.
set -euo pipefail

for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3.12 python3.13 python3.14 python3; do
    if command -v "$candidate" >/dev/null &&
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        command -v "$candidate"
        exit 0
    fi
done
echo "innet needs Python 3.11 or newer, and none was found on the PATH." >&2
echo "Install one (Debian 12: sudo apt-get install -y python3 python3-venv python3-dev)," >&2
echo "or name it: make setup PYTHON=/path/to/python3.11" >&2
exit 1
