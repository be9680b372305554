#!/usr/bin/env bash
# All checks that need no run: ruff, mypy --strict, import-linter, clang-format. Stops at the first that fails.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"

ruff check --quiet .
ruff format --check .
typed=(innet)
for folder in apps benchmarks tests; do
    if [[ -n $(find "$folder" -name '*.py' -print -quit 2>/dev/null) ]]; then
        typed+=("$folder")
    fi
done
python -m mypy --no-error-summary "${typed[@]}"
imports=$(lint-imports --no-logo --no-cache 2>&1) || {
    echo "$imports"
    exit 1
}
if ! scripts/native-sources.sh | xargs clang-format --dry-run -Werror --ferror-limit=3; then
    echo "lint: \`make format\` rewrites these" >&2
    exit 1
fi
echo "lint: ruff, mypy --strict, import-linter and clang-format agree"
