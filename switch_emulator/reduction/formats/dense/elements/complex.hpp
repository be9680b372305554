#pragma once
// Products of complex numbers. (Sums are those of twice as many real numbers.)

#include <cstdint>

#include "switch_emulator/reduction/formats/dense/elements/element.hpp"

namespace innet::reduction::element {

/// (a + bi)(c + di) = (ac - bd) + (ad + bc)i, every step rounded to `T`. Infinite factors may give
/// NaN; nothing is recovered as Annex G of the C standard would, so the expression is the value.
template <typename T>
struct Complex {
    struct Stored {
        T real;
        T imaginary;
    };
    using Accumulator = Stored;
    using Flags = std::uint32_t;

    INNET_INLINE Stored widen(Stored stored) { return stored; }
    INNET_INLINE Stored narrow(Stored value, Flags&) { return value; }
    INNET_INLINE Stored prod(Stored left, Stored right, Flags&) {
        return {left.real * right.real - left.imaginary * right.imaginary,
                left.real * right.imaginary + left.imaginary * right.real};
    }
};

}  // namespace innet::reduction::element
