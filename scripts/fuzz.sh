#!/usr/bin/env bash
# fuzz.sh RUNS [TARGET]...: builds the fuzz targets in build/fuzz and lets each take RUNS inputs,
# from the corpus in the repository on; by default all of them. SEED chooses the random numbers.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=$1
shift

compiler=${CLANGXX:-}
for candidate in clang++ clang++-{21..14}; do
    [[ -n $compiler ]] || compiler=$(command -v "$candidate" || true)
done
if [[ -z $compiler ]]; then
    echo "fuzzing needs clang with its runtime. Install them: apt-get install clang" >&2
    exit 1
fi

export PATH="$PWD/.venv/bin:$PATH"
cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug \
    -DINNET_SANITIZE=ON -DINNET_BUILD_FUZZERS=ON --log-level=WARNING
cmake --build build/fuzz --target tests/fuzz/all -- -j2

targets=("$@")
if ((${#targets[@]} == 0)); then
    mapfile -t targets < <(find tests/fuzz/corpus -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort)
fi
for target in "${targets[@]}"; do
    # What is found on the way grows beside the build: the repository's corpus stays small.
    found=build/fuzz/found/$target
    mkdir -p "$found"
    build/fuzz/tests/fuzz/"fuzz_$target" -runs="$runs" ${SEED:+-seed="$SEED"} -print_final_stats=1 \
        -artifact_prefix="$found-" "$found" "tests/fuzz/corpus/$target"
done
