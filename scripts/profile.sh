#!/usr/bin/env bash
# profile.sh SIZE_BYTES [OPTIONS OF innet run]: which functions of the kernel and of innet take the
# processor time of allreduces, over the whole machine, as tables in Markdown.
#
#   scripts/profile.sh 16777216 star8 --mode netns --rate 1gbit --algorithm inc
#
# SECONDS_OF_PROFILE=5 is how long it looks. Other programs count as well: let nothing else run.
set -euo pipefail
cd "$(dirname "$0")/.."

size_bytes=${1:?usage: scripts/profile.sh SIZE_BYTES TOPOLOGY [OPTIONS OF innet run]}
shift
if ! command -v perf >/dev/null; then
    echo "profile.sh needs perf (sudo apt-get install -y linux-perf)" >&2
    exit 1
fi

folder=$(mktemp -d)
job=
finish() {
    if [[ -n $job ]]; then
        kill -TERM "$job" 2>/dev/null || true
        wait "$job" 2>/dev/null || true
    fi
    rm -rf "$folder"
}
trap finish EXIT

# The worker prints "begun" after its first sums; a million more outlast the profile.
.venv/bin/innet run "$@" -- "$PWD/.venv/bin/python" "$PWD/benchmarks/workers/telemetry.py" \
    "$size_bytes" 1000000 >"$folder/log" 2>&1 &
job=$!
until grep -q begun "$folder/log"; do
    if ! kill -0 "$job" 2>/dev/null; then
        cat "$folder/log" >&2
        exit 1
    fi
    sleep 0.2
done
perf record -q -a -F 2999 -o "$folder/data" -- sleep "${SECONDS_OF_PROFILE:-5}"

# Idle time is none of anybody's.
report() {
    perf report -i "$folder/data" --stdio -g none --sort "$1" 2>/dev/null |
        grep -v -e '^#' -e '^$' -e pv_native_safe_halt -e swapper || true
}
echo "| share | program or library |"
echo "|---|---|"
report dso | head -8 | awk '{ printf "| %s | %s |\n", $1, $2 }'
echo
echo "| share | where | function |"
echo "|---|---|---|"
report dso,symbol | head -30 | awk '{
    share = $1; where = $2; $1 = $2 = $3 = ""; sub(/^ +/, "")
    printf "| %s | %s | `%s` |\n", share, where, $0
}'
