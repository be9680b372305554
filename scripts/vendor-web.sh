#!/usr/bin/env bash
# vendor-web.sh: bundles the libraries of the page of --web with their licences into
# innet/observe/web/static/vendor. Its output is committed: users and builds need no npm. Run it
# after a change of scripts/web/package.json.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK=build/vendor-web TO=innet/observe/web/static/vendor
command -v npm >/dev/null || { echo "npm is needed (sudo apt-get install -y nodejs npm)" >&2; exit 1; }

mkdir -p "$WORK" "$TO"
cp scripts/web/package.json scripts/web/libraries.js "$WORK/"
[ ! -e scripts/web/package-lock.json ] || cp scripts/web/package-lock.json "$WORK/"
if [ -e "$WORK/package-lock.json" ]; then
    npm ci --prefix "$WORK" --no-audit --no-fund --loglevel=error
else
    npm install --prefix "$WORK" --no-audit --no-fund --loglevel=error
fi
cp "$WORK/package-lock.json" scripts/web/package-lock.json

"$WORK/node_modules/.bin/esbuild" "$WORK/libraries.js" --bundle --format=esm --minify \
    --target=es2020 --legal-comments=none --log-level=warning --outfile="$TO/libraries.js"
cp "$WORK/node_modules/uplot/dist/uPlot.min.css" "$TO/uplot.css"

# Every package that the bundle has, with its version and licence.
(
    cd "$WORK/node_modules"
    for package in d3-* uplot; do
        version=$(sed -n 's/^ *"version": "\(.*\)",*$/\1/p' "$package/package.json" | head -1)
        printf '%s %s\n\n%s\n\n\n' "$package" "$version" "$(cat "$package"/LICENSE*)"
    done
) >"$TO/LICENSES.txt"
