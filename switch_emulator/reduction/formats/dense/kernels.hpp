#pragma once
// Element-wise reductions over tensors as they lie in packets: little-endian, at any alignment.

#include <cstdint>
#include <span>

#include "switch_emulator/reduction/formats/dense/dtype.hpp"
#include "switch_emulator/reduction/formats/format.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::reduction {

/// Reduces the operands into `result`, each element strictly from left to right, in one pass.
///
/// There are 1 to kMaxOperands operands; all have the size of `result`, a whole number of elements.
/// `result` overlaps no operand. The type supports the operation (`supports`).
///
/// * f32, f64: every step rounded to the type, no reassociation: the same bits on every processor.
/// * f16, bf16, f8e4m3fn, f8e5m2: computed in f32 and rounded once, to nearest even. NaN and
///   infinity survive; a result that is too large becomes infinity, or NaN in f8e4m3fn, which has
///   no infinity.
/// * min, max: like numpy.minimum and numpy.maximum. NaN wins; of zeros of both signs the right one
///   is taken.
/// * c64, c128: every step of the schoolbook expressions rounded to the part's type.
/// * i8 to i64, u8 to u64: modulo 2^n.
/// * bool: 0 or 1. sum, max and bor are "or", prod, min and band are "and".
///
/// True when a sum of integers may have left its type, in the result or on the way to it;
/// `carry_of` tells.
bool reduce(Op op, DType dtype, std::span<const wire::ByteView> operands,
            std::span<std::uint8_t> result);

/// The carry (carry.hpp) of the sum of `operands` of an integer type, of which `result` is the
/// rest.
std::uint64_t carry_of(DType dtype, std::span<const wire::ByteView> operands,
                       wire::ByteView result);

}  // namespace innet::reduction
