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

# The kernel's idle loop ("swapper") is left out, and so shares are of the time that was worked.
report() {
    perf report -i "$folder/data" --stdio -g none --sort "comm,$1" --field-separator '|' 2>"$folder/errors" |
        grep -v -e '^#' -e '^ *$' -e '| *swapper' || true
}
report dso >"$folder/dso"
if [[ ! -s $folder/dso ]]; then
    cat "$folder/errors" >&2
    echo "perf has recorded nothing; may it look at all processes (kernel.perf_event_paranoid)?" >&2
    exit 1
fi
# table FIELDS COUNT: the largest sums of shares over the fields after the program's name.
table() {
    awk -F '|' -v fields="$1" '
        { share = $1; sub(/%/, "", share); name = $3
          if (fields == 2) { name = name "|" $4 }
          gsub(/ +\|/, "|", name); gsub(/ +$/, "", name); shares[name] += share; all += share }
        END { for (name in shares) printf "%.1f|%s\n", 100 * shares[name] / all, name }' |
        sort -t '|' -k1,1 -rn | head -"$2"
}
echo "| share of processor time | program or library |"
echo "|---|---|"
table 1 8 <"$folder/dso" | awk -F '|' '{ printf "| %s %% | %s |\n", $1, $2 }'
echo
echo "| share of processor time | where | function |"
echo "|---|---|---|"
report dso,symbol | table 2 24 | awk -F '|' '{
    name = $3; sub(/^ *\[.\] /, "", name)
    printf "| %s %% | %s | `%s` |\n", $1, $2, name
}'
