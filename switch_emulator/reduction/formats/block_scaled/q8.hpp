#pragma once
// Blocks of 32 numbers: one byte for their scale, a power of two, and 32 signed bytes. The numbers
// are those of MXINT8 in the Open Compute Project's Microscaling specification, but for the rules
// below that make a block of given numbers unique.
//
// With E the scale byte and q one of the signed bytes, the number is q * 2^(E - 133). A block whose
// largest magnitude, rounded to seven bits, is below 2^-120 has E = 0 and stands for zeros; so do
// all E below 7. E = 255 marks a block that held NaN, an infinity or what is too large for the
// format: all of it is NaN, and every q is 0.

#include <cstddef>
#include <cstdint>
#include <span>

#include "transport/wire/tlv.hpp"

namespace innet::reduction {

inline constexpr std::size_t kQ8BlockElements = 32;
inline constexpr std::size_t kQ8BlockBytes = 1 + kQ8BlockElements;

constexpr std::size_t q8_encoded_size(std::size_t elements) {
    return (elements + kQ8BlockElements - 1) / kQ8BlockElements * kQ8BlockBytes;
}

/// Encodes `numbers` into `encoded`, of q8_encoded_size bytes; the last block is filled up with
/// zeros. The scale is the smallest by which the largest magnitude fits; every number is rounded to
/// nearest even. `lost`, if not empty, has the size of `numbers` (and may be the same memory): each
/// becomes what its encoding took from it, and 0 in a block marked as NaN, where nothing can be
/// made good for.
void q8_encode(std::span<const float> numbers, std::span<std::uint8_t> encoded,
               std::span<float> lost);

/// Decodes as many numbers as `numbers` has from the blocks in `encoded`.
void q8_decode(wire::ByteView encoded, std::span<float> numbers);

/// Adds 1 to kMaxOperands tensors of whole blocks, all of the size of `result`: each element from
/// left to right in f32, then encoded once. The bits are the same on every processor, for products
/// with a power of two are exact.
void q8_sum(std::span<const wire::ByteView> operands, std::span<std::uint8_t> result);

}  // namespace innet::reduction
