#!/usr/bin/env bash
# meanwhile.sh COMMAND...: runs it, and compiles the sanitized build with what it leaves of the processors.
# What is not compiled when COMMAND ends, or cannot be, is left to who builds next, at usual priority.
set -uo pipefail
cd "$(dirname "$0")/.."

set -m # a process group of its own, from its first moment on
nice -n 19 scripts/native-tests.sh sanitize --no-run >/dev/null 2>&1 &
build=$!
set +m
end_build() {
    while kill -- "-$build" 2>/dev/null; do sleep 0.1; done
}
trap end_build EXIT
"$@"
