#pragma once
// Element-wise reductions over tensors as they lie in packets: little-endian, at any alignment.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "transport/wire/tlv.hpp"

namespace innet::reduction {

enum class Op : std::uint8_t { kSum, kMin, kMax, kProd };
enum class DType : std::uint8_t { kF32, kF64, kF16, kBf16, kI32, kI64, kU8 };

enum class KernelStatus : std::uint8_t { kOk, kOverflow };

/// `sum`, `min`, `max` or `prod`; nothing for any other word.
std::optional<Op> parse_op(std::string_view text);
/// `f32`, `f64`, `f16`, `bf16`, `i32`, `i64` or `u8`; nothing for any other word.
std::optional<DType> parse_dtype(std::string_view text);

constexpr std::size_t element_size(DType dtype) {
    switch (dtype) {
        case DType::kF64:
        case DType::kI64:
            return 8;
        case DType::kF32:
        case DType::kI32:
            return 4;
        case DType::kF16:
        case DType::kBf16:
            return 2;
        case DType::kU8:
            return 1;
    }
    return 1;
}

/// Reduces the operands into `result`, each element strictly from left to right, in one pass.
///
/// There is at least one operand; all have the size of `result`, a whole number of elements.
/// `result` overlaps no operand.
///
/// * f32, f64: every step rounded to the type, no reassociation: the same bits on every processor.
/// * f16, bf16: computed in f32 and rounded once, to nearest even. NaN and infinity survive; a f16
/// result
///   beyond 65504 becomes infinity.
/// * min, max: like numpy.minimum and numpy.maximum. NaN wins; of zeros of both signs the right one
/// is
///   taken, or the left one in f16.
/// * i32, u8: the exact result, or kOverflow when it is outside the type. i64: kOverflow when any
/// partial
///   result is outside. The result's bytes are unspecified then.
KernelStatus reduce(Op op, DType dtype, std::span<const wire::ByteView> operands,
                    std::span<std::uint8_t> result);

}  // namespace innet::reduction
