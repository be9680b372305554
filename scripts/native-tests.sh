#!/usr/bin/env bash
# native-tests.sh native|sanitize [doctest arguments]: builds the C++ unit tests in build/<kind>
# and runs them.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=$1
shift

options=(-DINNET_BUILD_TESTS=ON)
case $kind in
    native) options+=(-DCMAKE_BUILD_TYPE=Release) ;;
    sanitize) options+=(-DCMAKE_BUILD_TYPE=Debug -DINNET_SANITIZE=ON) ;;
    *)
        echo "native-tests.sh: unknown kind '$kind'; say native or sanitize" >&2
        exit 2
        ;;
esac

export PATH="$PWD/.venv/bin:$PATH"
cmake -S . -B "build/$kind" -G Ninja "${options[@]}" --log-level=WARNING
cmake --build "build/$kind" --target innet_native_tests
# Memory that cannot be had is null, as without the sanitizer: what then happens is tested.
export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_leaks=1:strict_string_checks=1:allocator_may_return_null=1}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
exec "build/$kind/tests/native/innet_native_tests" "$@"
