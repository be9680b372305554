#!/usr/bin/env bash
# audit.sh: what `make lint` does not look for. Goes through all checks, and fails if one finds something.
# Known vulnerabilities of the installed packages, where the database can be reached, and clang-tidy's
# bugprone and cert groups on C++. Ruff's security rules are part of `make lint`.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
failed=0

echo "pip-audit: known vulnerabilities of the installed packages"
if ! python -m pip_audit --version >/dev/null 2>&1; then
    echo "  not checked: pip-audit is not installed (.venv/bin/pip install pip-audit)"
else
    report=$(timeout 120 python -m pip_audit --skip-editable --progress-spinner off 2>&1)
    if grep -qE '^Found [0-9]+ known vulnerabilit' <<<"$report"; then
        failed=1
    elif ! grep -q '^No known vulnerabilities' <<<"$report"; then
        echo "  not checked: the database cannot be reached"
    fi
    unknown=$(grep -c 'could not be audited' <<<"$report")
    grep -v 'could not be audited' <<<"$report"
    ((unknown == 0)) || echo "  $unknown packages not checked: the database does not answer for them"
fi

if ! command -v clang-tidy >/dev/null; then
    echo "clang-tidy is needed. Install it: apt-get install clang-tidy" >&2
    exit 1
fi
database=build/$(python -c 'import sys; print(sys.implementation.cache_tag)')
mapfile -t sources < <(scripts/native-sources.sh | grep '\.cpp$' | grep -vE '(^|/)(tests|benchmarks)/')
echo "clang-tidy: bugprone and cert on ${#sources[@]} files (10 to 20 minutes on two cores)"
printf '%s\n' "${sources[@]}" |
    xargs -P "$(nproc)" -n 4 clang-tidy -p "$database" --quiet 2> >(grep -v 'warnings generated' >&2) || failed=1

((failed == 0)) && echo "audit: nothing found"
exit "$failed"
