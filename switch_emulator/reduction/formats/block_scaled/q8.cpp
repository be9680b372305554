#include "switch_emulator/reduction/formats/block_scaled/q8.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "switch_emulator/reduction/formats/cpu_clones.hpp"

namespace innet::reduction {

namespace {

using Numbers = std::array<float, kQ8BlockElements>;

constexpr std::uint32_t kMarked = 255;
/// Below it, the scale would be no normal number.
constexpr std::uint32_t kSmallestScale = 7;
/// Six bits of a magnitude stand before the point, so that it uses all of a signed byte.
constexpr std::uint32_t kPointBits = 6;

INNET_INLINE float power_of_two(std::uint32_t biased_exponent) {
    return std::bit_cast<float>(biased_exponent << 23);
}

/// The scale of a block as a number: NaN if it is marked.
INNET_INLINE float scale_of(std::uint32_t code) {
    if (code == kMarked) return std::numeric_limits<float>::quiet_NaN();
    return code < kSmallestScale ? 0.0F : power_of_two(code - kPointBits);
}

/// The code of the scale that fits all numbers.
INNET_INLINE std::uint32_t scale_code(const Numbers& numbers) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < kQ8BlockElements; ++i) {
        largest = std::max(largest, std::bit_cast<std::uint32_t>(numbers[i]) & 0x7fffffffU);
    }
    // From 127.5 steps on, the magnitude would be rounded to 128: one scale more. Infinity and NaN
    // have the largest exponent, and a carry into it is too large.
    const std::uint32_t code = (largest + 0x10000U) >> 23;
    return code < kSmallestScale ? 0 : std::min(code, kMarked);
}

/// Encodes one block; returns its scale.
INNET_INLINE float encode_block(const Numbers& numbers, std::uint8_t* encoded) {
    // Adding it rounds a number below 2^22 to a whole one, to nearest even.
    constexpr float kRounder = 12582912.0F;
    const std::uint32_t code = scale_code(numbers);
    encoded[0] = static_cast<std::uint8_t>(code);
    if (code == kMarked || code == 0) {
        std::memset(encoded + 1, 0, kQ8BlockElements);
        return scale_of(code);
    }
    const float inverse = power_of_two(254U + kPointBits - code);
    std::array<std::int8_t, kQ8BlockElements> steps;
    for (std::size_t i = 0; i < kQ8BlockElements; ++i) {
        const std::uint32_t rounded = std::bit_cast<std::uint32_t>(numbers[i] * inverse + kRounder);
        steps[i] = static_cast<std::int8_t>(
            static_cast<std::int32_t>(rounded - std::bit_cast<std::uint32_t>(kRounder)));
    }
    std::memcpy(encoded + 1, steps.data(), steps.size());
    return scale_of(code);
}

INNET_INLINE void decode_block(const std::uint8_t* encoded, Numbers& numbers) {
    const float scale = scale_of(encoded[0]);
    std::array<std::int8_t, kQ8BlockElements> steps;
    std::memcpy(steps.data(), encoded + 1, steps.size());
    for (std::size_t i = 0; i < kQ8BlockElements; ++i) {
        numbers[i] = static_cast<float>(steps[i]) * scale;
    }
}

}  // namespace

INNET_CPU_CLONES
void q8_encode(std::span<const float> numbers, std::span<std::uint8_t> encoded,
               std::span<float> lost) {
    Numbers block;
    Numbers decoded;
    for (std::size_t start = 0; start < numbers.size(); start += kQ8BlockElements) {
        const std::size_t count = std::min(kQ8BlockElements, numbers.size() - start);
        block.fill(0);
        std::memcpy(block.data(), numbers.data() + start, count * sizeof(float));
        std::uint8_t* const at = encoded.data() + start / kQ8BlockElements * kQ8BlockBytes;
        const float scale = encode_block(block, at);
        if (lost.empty()) continue;
        decode_block(at, decoded);
        for (std::size_t i = 0; i < kQ8BlockElements; ++i) {
            block[i] = scale == scale ? block[i] - decoded[i] : 0.0F;
        }
        std::memcpy(lost.data() + start, block.data(), count * sizeof(float));
    }
}

INNET_CPU_CLONES
void q8_decode(wire::ByteView encoded, std::span<float> numbers) {
    Numbers block;
    for (std::size_t start = 0; start < numbers.size(); start += kQ8BlockElements) {
        decode_block(encoded.data() + start / kQ8BlockElements * kQ8BlockBytes, block);
        const std::size_t count = std::min(kQ8BlockElements, numbers.size() - start);
        std::memcpy(numbers.data() + start, block.data(), count * sizeof(float));
    }
}

INNET_CPU_CLONES
void q8_sum(std::span<const wire::ByteView> operands, std::span<std::uint8_t> result) {
    Numbers sums;
    Numbers numbers;
    for (std::size_t at = 0; at < result.size(); at += kQ8BlockBytes) {
        decode_block(operands.front().data() + at, sums);
        for (const wire::ByteView operand : operands.subspan(1)) {
            decode_block(operand.data() + at, numbers);
            for (std::size_t i = 0; i < kQ8BlockElements; ++i) sums[i] += numbers[i];
        }
        encode_block(sums, result.data() + at);
    }
}

}  // namespace innet::reduction
