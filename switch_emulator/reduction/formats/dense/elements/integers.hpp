#pragma once
// How integers and truth values are loaded, accumulated and stored.

#include <cstdint>
#include <type_traits>

#include "switch_emulator/reduction/formats/dense/elements/element.hpp"

namespace innet::reduction::element {

/// Steps of integers that fit `Wide` with room: sums are exact in `Wide` (of up to 2^15 operands).
template <typename T, typename Wide>
struct NarrowIntegerSteps {
    using Stored = T;
    using Accumulator = Wide;
    using Flags = Wide;
    static_assert(sizeof(Wide) >= 2 * sizeof(T));

    INNET_INLINE Wide widen(T stored) { return stored; }
    INNET_INLINE T narrow(Wide value, Flags& flags) {
        const T stored = static_cast<T>(value);
        flags |= static_cast<Wide>(stored) ^ value;
        return stored;
    }
    INNET_INLINE Wide sum(Wide left, Wide right, Flags&) { return left + right; }
    INNET_INLINE Wide min(Wide left, Wide right, Flags&) { return left < right ? left : right; }
    INNET_INLINE Wide max(Wide left, Wide right, Flags&) { return left > right ? left : right; }
    INNET_INLINE Wide prod(Wide left, Wide right, Flags&) { return static_cast<T>(left * right); }
};

using I8 = NarrowIntegerSteps<std::int8_t, std::int32_t>;
using U8 = NarrowIntegerSteps<std::uint8_t, std::int32_t>;
using I16 = NarrowIntegerSteps<std::int16_t, std::int32_t>;
using I32 = NarrowIntegerSteps<std::int32_t, std::int64_t>;

using U16 = NarrowIntegerSteps<std::uint16_t, std::uint32_t>;
using U32 = NarrowIntegerSteps<std::uint32_t, std::uint64_t>;

/// Types that have nothing wider: every step of a sum is checked.
template <typename T>
struct WideIntegerSteps {
    using Stored = T;
    using Accumulator = T;
    using Flags = std::uint64_t;

    INNET_INLINE T widen(T stored) { return stored; }
    INNET_INLINE T narrow(T value, Flags&) { return value; }
    INNET_INLINE T sum(T left, T right, Flags& flags) {
        const auto a = static_cast<std::uint64_t>(left);
        const auto b = static_cast<std::uint64_t>(right);
        const std::uint64_t total = a + b;
        if constexpr (std::is_signed_v<T>) {
            // Overflow: the total's sign differs from both operands' signs.
            flags |= ((a ^ total) & (b ^ total)) >> 63;
        } else {
            // The carry out of the highest bit.
            flags |= ((a & b) | ((a | b) & ~total)) >> 63;
        }
        return static_cast<T>(total);
    }
    INNET_INLINE T min(T left, T right, Flags&) { return left < right ? left : right; }
    INNET_INLINE T max(T left, T right, Flags&) { return left > right ? left : right; }
    INNET_INLINE T prod(T left, T right, Flags&) {
        return static_cast<T>(static_cast<std::uint64_t>(left) * static_cast<std::uint64_t>(right));
    }
};

using I64 = WideIntegerSteps<std::int64_t>;
using U64 = WideIntegerSteps<std::uint64_t>;

/// The bits of integers of any size, byte by byte.
struct Bits {
    using Stored = std::uint8_t;
    using Accumulator = std::uint8_t;
    using Flags = std::uint32_t;

    INNET_INLINE std::uint8_t widen(std::uint8_t stored) { return stored; }
    INNET_INLINE std::uint8_t narrow(std::uint8_t value, Flags&) { return value; }
    INNET_INLINE std::uint8_t band(std::uint8_t left, std::uint8_t right, Flags&) {
        return left & right;
    }
    INNET_INLINE std::uint8_t bor(std::uint8_t left, std::uint8_t right, Flags&) {
        return left | right;
    }
    INNET_INLINE std::uint8_t bxor(std::uint8_t left, std::uint8_t right, Flags&) {
        return left ^ right;
    }
};

/// Truth values: 0 and 1; any other stored value is true. Every operation but `bxor` is an "and" or
/// an "or".
struct Bool : Bits {
    INNET_INLINE std::uint8_t widen(std::uint8_t stored) { return stored != 0 ? 1 : 0; }
};

}  // namespace innet::reduction::element
