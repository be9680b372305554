#!/usr/bin/env bash
# audit-native.sh: clang-tidy's bugprone and cert groups on C++. Statuses are those of audit.sh.
# A file that is clean is checked again only when it, a header of ours that it includes, or the checks change:
# an interrupted run goes on where it was, and a second one takes seconds.
set -uo pipefail
if ! command -v clang-tidy >/dev/null; then
    echo "clang-tidy: not checked: it is not installed. Install it: apt-get install clang-tidy" >&2
    exit 2
fi
database=build/$(python -c 'import sys; print(sys.implementation.cache_tag)')
clean=build/tidy
mkdir -p "$clean"

# check SOURCE HEADER...
check() {
    local key
    key=$( (clang-tidy --version && cat .clang-tidy "$@") | sha256sum | cut -c1-32)
    [[ -e $clean/$key ]] && return 0
    nice -n 10 clang-tidy -p "$database" --quiet "$1" 2> >(grep -v 'warnings generated' >&2) && touch "$clean/$key"
}
export -f check
export clean database

# Each of our sources with the headers of ours that it includes, as the last build noted them.
sources_with_headers() {
    ninja -C "$database" -t deps | awk '
        /#deps/ { if (line != "") print line; line = "" }
        $1 ~ /^\.\.\/\.\.\// { line = line (line == "" ? "" : " ") substr($1, 7) }
        END { if (line != "") print line }' |
        grep -vE '^(\.venv|tests|benchmarks)/' | while read -r source headers; do
        [[ ! -e $source ]] || echo "$source $headers"
    done
}

echo "clang-tidy: bugprone and cert on $(sources_with_headers | wc -l) files (10 to 30 minutes at first)"
sources_with_headers | xargs -P "$(nproc)" -L 1 bash -c 'check "$@"' check || exit 1
