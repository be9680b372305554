#pragma once
// How kernels are compiled.

// One copy of all loops per generation of x86-64, chosen when the program is loaded. Sanitized, all
// copies would be checked for the same, and be long to compile.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define INNET_CPU_CLONES \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define INNET_CPU_CLONES
#endif

// What the clones call must become part of them.
#define INNET_INLINE [[gnu::always_inline]] static inline
