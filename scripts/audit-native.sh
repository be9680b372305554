#!/usr/bin/env bash
# audit-native.sh: clang-tidy's bugprone and cert groups on C++. Statuses are those of audit.sh.
set -uo pipefail
if ! command -v clang-tidy >/dev/null; then
    echo "clang-tidy: not checked: it is not installed. Install it: apt-get install clang-tidy" >&2
    exit 2
fi
database=build/$(python -c 'import sys; print(sys.implementation.cache_tag)')
mapfile -t sources < <(scripts/native-sources.sh | grep '\.cpp$' | grep -vE '(^|/)(tests|benchmarks)/')
echo "clang-tidy: bugprone and cert on ${#sources[@]} files (10 to 20 minutes on two cores)"
printf '%s\n' "${sources[@]}" |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$database" --quiet 2> >(grep -v 'warnings generated' >&2) || exit 1
