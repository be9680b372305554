#pragma once
// The kernels behind `reduce`, one file for each family of types. Arguments as there.

#include <cstdint>
#include <span>

#include "switch_emulator/reduction/formats/dense/kernels.hpp"

// One copy of all loops per generation of x86-64, chosen when the program is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define INNET_CPU_CLONES \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define INNET_CPU_CLONES
#endif

namespace innet::reduction {

ReduceStatus reduce_reals(Op op, DType dtype, std::span<const wire::ByteView> operands,
                          std::span<std::uint8_t> result);
ReduceStatus reduce_complex(Op op, DType dtype, std::span<const wire::ByteView> operands,
                            std::span<std::uint8_t> result);
ReduceStatus reduce_integers(Op op, DType dtype, std::span<const wire::ByteView> operands,
                             std::span<std::uint8_t> result);
ReduceStatus reduce_logical(Op op, std::span<const wire::ByteView> operands,
                            std::span<std::uint8_t> result);

}  // namespace innet::reduction
