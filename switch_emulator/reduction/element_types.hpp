#pragma once
// How each element type is loaded, accumulated and stored. Everything here is branch-free per
// element, so that the loops of kernels.cpp become vector code.
//
// A traits class has: Stored (what lies in memory), Accumulator, Flags (an integer that collects
// signs of overflow over a block), `widen`, `narrow` and the steps `sum`, `min`, `max`, `prod`.

#include <bit>
#include <cstdint>
#include <limits>

#define INNET_INLINE [[gnu::always_inline]] static inline

namespace innet::reduction::element {

enum class Tie : std::uint8_t { kTakesLeft, kTakesRight };

/// Steps of floating-point accumulators. f16 and bf16 are exact in f32, so their minimum is, too.
/// `kTie`: which of two equal values is the minimum; it shows in the sign of zero, where NumPy's
/// types differ.
template <typename T, Tie kTie>
struct FloatSteps {
    using Accumulator = T;
    using Flags = std::uint32_t;

    INNET_INLINE T sum(T left, T right, Flags&) { return left + right; }
    INNET_INLINE T prod(T left, T right, Flags&) { return left * right; }
    // Not std::min: NaN must win on either side (a NaN on the right fails the comparison).
    INNET_INLINE T min(T left, T right, Flags&) {
        const bool take_left = kTie == Tie::kTakesLeft ? left <= right : left < right;
        const T chosen = take_left ? left : right;
        return left != left ? left : chosen;
    }
    INNET_INLINE T max(T left, T right, Flags&) {
        const bool take_left = kTie == Tie::kTakesLeft ? left >= right : left > right;
        const T chosen = take_left ? left : right;
        return left != left ? left : chosen;
    }
};

struct F32 : FloatSteps<float, Tie::kTakesRight> {
    using Stored = float;
    INNET_INLINE float widen(float stored) { return stored; }
    INNET_INLINE float narrow(float value, Flags&) { return value; }
};

struct F64 : FloatSteps<double, Tie::kTakesRight> {
    using Stored = double;
    INNET_INLINE double widen(double stored) { return stored; }
    INNET_INLINE double narrow(double value, Flags&) { return value; }
};

struct F16 : FloatSteps<float, Tie::kTakesLeft> {
    using Stored = std::uint16_t;

    INNET_INLINE float widen(std::uint16_t stored) {
        constexpr std::uint32_t kExponentMask = 0x7c00U << 13;
        constexpr std::uint32_t kRebias = (127U - 15U) << 23;
        constexpr std::uint32_t kSmallestNormal = (127U - 14U) << 23;
        const std::uint32_t sign = (stored & 0x8000U) << 16;
        const std::uint32_t shifted = (stored & 0x7fffU) << 13;
        const std::uint32_t exponent = shifted & kExponentMask;
        const std::uint32_t normal = shifted + kRebias;
        // A subnormal m * 2^-24 is the distance of (1 + m * 2^-10) * 2^-14 from 2^-14: no subnormal
        // f32 is ever computed with, so a thread that flushes those to zero gets the same bits.
        const std::uint32_t subnormal =
            std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + kSmallestNormal) -
                                         std::bit_cast<float>(kSmallestNormal));
        std::uint32_t bits = exponent == kExponentMask ? normal + kRebias : normal;
        bits = exponent == 0 ? subnormal : bits;
        return std::bit_cast<float>(bits | sign);
    }

    INNET_INLINE std::uint16_t narrow(float value, Flags&) {
        constexpr std::uint32_t kInfinity = 0x7f800000U;
        constexpr std::uint32_t kSmallestNormal = (127U - 14U) << 23;
        constexpr std::uint32_t kOverflow = (127U + 16U) << 23;
        // 0.5, whose last mantissa bit is worth 2^-24, the step of f16's subnormals.
        constexpr std::uint32_t kSubnormalMagic = (127U - 1U) << 23;
        const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = (all >> 16) & 0x8000U;
        const std::uint32_t bits = all & 0x7fffffffU;
        const std::uint32_t odd = (bits >> 13) & 1U;
        const std::uint32_t normal = (bits - ((127U - 15U) << 23) + 0xfffU + odd) >> 13;
        const std::uint32_t subnormal =
            std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) +
                                         std::bit_cast<float>(kSubnormalMagic)) -
            kSubnormalMagic;
        const std::uint32_t nan = 0x7e00U | ((bits >> 13) & 0x3ffU);
        std::uint32_t half = bits < kSmallestNormal ? subnormal : normal;
        half = bits >= kOverflow ? 0x7c00U : half;
        half = bits > kInfinity ? nan : half;
        return static_cast<std::uint16_t>(half | sign);
    }
};

struct Bf16 : FloatSteps<float, Tie::kTakesRight> {
    using Stored = std::uint16_t;

    INNET_INLINE float widen(std::uint16_t stored) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
    }
    INNET_INLINE std::uint16_t narrow(float value, Flags&) {
        const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
        const std::uint32_t quiet_nan = (bits >> 16) | 0x40U;
        const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
        return static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded);
    }
};

/// Steps of integers that fit `Wide` with room: sums are exact in `Wide` (of up to 2^24 operands),
/// and a product that left the type stays outside it in a clamped form, unless it meets a zero.
template <typename T, typename Wide>
struct NarrowIntegerSteps {
    using Stored = T;
    using Accumulator = Wide;
    using Flags = Wide;
    static constexpr Wide kLowest = std::numeric_limits<T>::min();
    static constexpr Wide kHighest = std::numeric_limits<T>::max();
    // Twice outside: 2^31 * -1 would be back inside i32, (2^31 + 1) * -1 is not.
    static constexpr Wide kClamp = kHighest + 2;

    INNET_INLINE Wide widen(T stored) { return stored; }
    INNET_INLINE T narrow(Wide value, Flags& flags) {
        const T stored = static_cast<T>(value);
        flags |= static_cast<Wide>(stored) ^ value;
        return stored;
    }
    INNET_INLINE Wide sum(Wide left, Wide right, Flags&) { return left + right; }
    INNET_INLINE Wide min(Wide left, Wide right, Flags&) { return left < right ? left : right; }
    INNET_INLINE Wide max(Wide left, Wide right, Flags&) { return left > right ? left : right; }
    INNET_INLINE Wide prod(Wide left, Wide right, Flags&) {
        const Wide exact = left * right;
        const Wide capped = exact > kClamp ? kClamp : exact;
        return capped < -kClamp ? -kClamp : capped;
    }
};

using I32 = NarrowIntegerSteps<std::int32_t, std::int64_t>;
using U8 = NarrowIntegerSteps<std::uint8_t, std::int32_t>;

/// i64 has nothing wider: every step is checked.
struct I64 {
    using Stored = std::int64_t;
    using Accumulator = std::int64_t;
    using Flags = std::uint64_t;

    INNET_INLINE std::int64_t widen(std::int64_t stored) { return stored; }
    INNET_INLINE std::int64_t narrow(std::int64_t value, Flags&) { return value; }
    INNET_INLINE std::int64_t sum(std::int64_t left, std::int64_t right, Flags& flags) {
        const auto a = static_cast<std::uint64_t>(left);
        const auto b = static_cast<std::uint64_t>(right);
        const std::uint64_t total = a + b;
        // Overflow: the total's sign differs from both operands' signs.
        flags |= ((a ^ total) & (b ^ total)) >> 63;
        return static_cast<std::int64_t>(total);
    }
    INNET_INLINE std::int64_t min(std::int64_t left, std::int64_t right, Flags&) {
        return left < right ? left : right;
    }
    INNET_INLINE std::int64_t max(std::int64_t left, std::int64_t right, Flags&) {
        return left > right ? left : right;
    }
    INNET_INLINE std::int64_t prod(std::int64_t left, std::int64_t right, Flags& flags) {
        std::int64_t product = 0;
        flags |= static_cast<Flags>(__builtin_mul_overflow(left, right, &product));
        return product;
    }
};

}  // namespace innet::reduction::element
