#pragma once
// How real numbers are loaded, accumulated and stored.

#include <bit>
#include <cstdint>

#include "switch_emulator/reduction/formats/dense/elements/element.hpp"

namespace innet::reduction::element {

/// Steps of floating-point accumulators. Narrow types are exact in f32, so their minimum is, too.
/// Of two equal values the right one is the minimum; it shows in the sign of zero.
template <typename T>
struct FloatSteps {
    using Accumulator = T;
    using Flags = std::uint32_t;

    INNET_INLINE T sum(T left, T right, Flags&) { return left + right; }
    INNET_INLINE T prod(T left, T right, Flags&) { return left * right; }
    // Not std::min: NaN must win on either side (a NaN on the right fails the comparison).
    INNET_INLINE T min(T left, T right, Flags&) {
        const T chosen = left < right ? left : right;
        return left != left ? left : chosen;
    }
    INNET_INLINE T max(T left, T right, Flags&) {
        const T chosen = left > right ? left : right;
        return left != left ? left : chosen;
    }
};

struct F32 : FloatSteps<float> {
    using Stored = float;
    INNET_INLINE float widen(float stored) { return stored; }
    INNET_INLINE float narrow(float value, Flags&) { return value; }
};

struct F64 : FloatSteps<double> {
    using Stored = double;
    INNET_INLINE double widen(double stored) { return stored; }
    INNET_INLINE double narrow(double value, Flags&) { return value; }
};

struct Bf16 : FloatSteps<float> {
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

/// What the largest exponent of a small float stands for.
enum class TopExponent : std::uint8_t {
    kInfinityAndNan,  ///< as in IEEE 754
    kNumbers,         ///< numbers; only the pattern of all ones is NaN, and there is no infinity
};

/// A float with a sign, `kExponentBits` and `kMantissaBits`, computed in f32. Rounded to nearest
/// even. What is too large becomes infinity, or NaN in a type that has none.
template <typename StoredType, unsigned kExponentBits, unsigned kMantissaBits, TopExponent kTop>
struct SmallFloat : FloatSteps<float> {
    using Stored = StoredType;
    using typename FloatSteps<float>::Flags;

    static constexpr unsigned kWidth = 1 + kExponentBits + kMantissaBits;
    static constexpr unsigned kShift = 23 - kMantissaBits;
    static constexpr std::uint32_t kBias = (1U << (kExponentBits - 1)) - 1;
    static constexpr std::uint32_t kSignBit = 1U << (kWidth - 1);
    static constexpr std::uint32_t kAllOnes = kSignBit - 1;
    static constexpr std::uint32_t kExponentMask = ((1U << kExponentBits) - 1) << 23;
    static constexpr std::uint32_t kRebias = (127U - kBias) << 23;
    static constexpr std::uint32_t kSmallestNormal = (128U - kBias) << 23;
    static constexpr bool kHasInfinity = kTop == TopExponent::kInfinityAndNan;

    INNET_INLINE float widen(Stored stored) {
        const std::uint32_t sign = (stored & kSignBit) << (32 - kWidth);
        const std::uint32_t shifted = (stored & kAllOnes) << kShift;
        const std::uint32_t exponent = shifted & kExponentMask;
        const std::uint32_t normal = shifted + kRebias;
        // With m in the mantissa, a subnormal is the distance of (1 + m) * smallest from the
        // smallest normal number: no subnormal f32 is ever computed with, so a thread that flushes
        // those to zero gets the same bits.
        const std::uint32_t subnormal =
            std::bit_cast<std::uint32_t>(std::bit_cast<float>(shifted + kSmallestNormal) -
                                         std::bit_cast<float>(kSmallestNormal));
        std::uint32_t bits = exponent == 0 ? subnormal : normal;
        if constexpr (kHasInfinity) {
            bits = exponent == kExponentMask ? normal + kRebias : bits;
        } else {
            bits = (stored & kAllOnes) == kAllOnes ? 0x7fc00000U : bits;
        }
        return std::bit_cast<float>(bits | sign);
    }

    INNET_INLINE Stored narrow(float value, Flags&) {
        constexpr std::uint32_t kF32Infinity = 0x7f800000U;
        // The number whose last mantissa bit is worth as much as that of the type's subnormals.
        constexpr std::uint32_t kSubnormalMagic = (151U - kBias - kMantissaBits) << 23;
        const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
        const std::uint32_t sign = (all >> (32 - kWidth)) & kSignBit;
        const std::uint32_t bits = all & 0x7fffffffU;
        const std::uint32_t odd = (bits >> kShift) & 1U;
        const std::uint32_t normal = (bits - kRebias + ((1U << (kShift - 1)) - 1) + odd) >> kShift;
        const std::uint32_t subnormal =
            std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) +
                                         std::bit_cast<float>(kSubnormalMagic)) -
            kSubnormalMagic;
        std::uint32_t small = bits < kSmallestNormal ? subnormal : normal;
        if constexpr (kHasInfinity) {
            constexpr std::uint32_t kTooLarge = (128U + kBias) << 23;
            constexpr std::uint32_t kInfinity = kExponentMask >> kShift;
            constexpr std::uint32_t kQuietBit = 1U << (kMantissaBits - 1);
            const std::uint32_t nan = kInfinity | kQuietBit | ((bits >> kShift) & (kQuietBit - 1));
            small = bits >= kTooLarge ? kInfinity : small;
            small = bits > kF32Infinity ? nan : small;
        } else {
            constexpr std::uint32_t kTooLarge = (kAllOnes << kShift) + kRebias;
            small = bits >= kTooLarge ? kAllOnes : small;
        }
        return static_cast<Stored>(small | sign);
    }
};

using F16 = SmallFloat<std::uint16_t, 5, 10, TopExponent::kInfinityAndNan>;
/// The 8-bit types of the Open Compute Project's OFP8 specification.
using E5m2 = SmallFloat<std::uint8_t, 5, 2, TopExponent::kInfinityAndNan>;
using E4m3fn = SmallFloat<std::uint8_t, 4, 3, TopExponent::kNumbers>;

}  // namespace innet::reduction::element
