# Compiler settings shared by every target: language, code generation, warnings, sanitizers, ccache.

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# A fused multiply-add rounds once where the plan's expression rounds twice, so contraction would
# make a sum depend on the CPU. Frame pointers let perf unwind the packet path cheaply.
add_compile_options(-ffp-contract=off -fno-omit-frame-pointer)

# Log lines of the engine (transport/debug_log.hpp), which a release has no code for.
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    add_compile_definitions(INNET_DEBUG_LOG)
endif()

if(INNET_SANITIZE)
    set(sanitizers -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(INNET_SANITIZE_THREADS)
    set(sanitizers -fsanitize=thread)
endif()
if(sanitizers)
    add_compile_options(-O1 -g1 ${sanitizers})
    add_link_options(${sanitizers})
endif()

if(INNET_BUILD_FUZZERS)
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "fuzz targets need clang: give -DCMAKE_CXX_COMPILER=clang++")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Linked by our own targets alone, so that foreign sources (nanobind's) are not held to it.
add_library(innet_warnings INTERFACE)
target_compile_options(
    innet_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror)

# The base directory makes paths relative in the cache key: the extension, the native tests and
# other checkouts of the same sources then share their objects.
find_program(CCACHE_PROGRAM ccache)
if(DEFINED ENV{CCACHE_DISABLE})
    set(CCACHE_PROGRAM "")
endif()
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=true ${CCACHE_PROGRAM})
endif()

# innet_precompile(<target> <header>...)
#
# Where there is no ccache, headers that most sources of <target> include are parsed once. ccache
# would find nothing of another checkout with them, and is worth more.
function(innet_precompile target)
    if(NOT CMAKE_CXX_COMPILER_LAUNCHER)
        target_precompile_headers(${target} PRIVATE ${ARGN})
    endif()
endfunction()
