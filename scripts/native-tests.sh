#!/usr/bin/env bash
# native-tests.sh native|sanitize|sanitize-threads [doctest arguments]: builds the C++ unit tests and runs them.
# The native ones are a further target of the extension's build, and link its libraries.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
shift

export PATH="$PWD/.venv/bin:$PATH"
options=(-DINNET_BUILD_TESTS=ON)
case $kind in
    native)
        folder=build/$(python -c 'import sys; print(sys.implementation.cache_tag)')
        [[ -f $folder/CMakeCache.txt ]] || .venv/bin/python scripts/build_extension.py
        ;;
    sanitize)
        folder=build/sanitize
        options+=(-DCMAKE_BUILD_TYPE=Debug -DINNET_SANITIZE=ON)
        ;;
    sanitize-threads)
        folder=build/sanitize-threads
        options+=(-DCMAKE_BUILD_TYPE=Debug -DINNET_SANITIZE_THREADS=ON)
        ;;
    *)
        echo "native-tests.sh: unknown kind '$kind'; say native, sanitize or sanitize-threads" >&2
        exit 2
        ;;
esac

cmake -S . -B "$folder" -G Ninja "${options[@]}" --log-level=WARNING
cmake --build "$folder" --target innet_native_tests
# Memory that cannot be had is null, as without the sanitizer: what then happens is tested.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1}
export TSAN_OPTIONS=${TSAN_OPTIONS:-allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
exec "$folder/tests/native/innet_native_tests" "$@"
