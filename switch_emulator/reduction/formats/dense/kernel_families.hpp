#pragma once
// The kernels behind `reduce`, one file for each family of types. Arguments as there.

#include <cstdint>
#include <span>

#include "switch_emulator/reduction/formats/cpu_clones.hpp"
#include "switch_emulator/reduction/formats/dense/kernels.hpp"

namespace innet::reduction {

bool reduce_reals(Op op, DType dtype, std::span<const wire::ByteView> operands,
                  std::span<std::uint8_t> result);
bool reduce_complex(Op op, DType dtype, std::span<const wire::ByteView> operands,
                    std::span<std::uint8_t> result);
bool reduce_integers(Op op, DType dtype, std::span<const wire::ByteView> operands,
                     std::span<std::uint8_t> result);
bool reduce_logical(Op op, std::span<const wire::ByteView> operands,
                    std::span<std::uint8_t> result);

}  // namespace innet::reduction
