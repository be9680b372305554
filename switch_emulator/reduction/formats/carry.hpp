#pragma once
// The carry of a sum of integers, as one number for a whole segment.
//
// A sum in n bits is exact modulo 2^n: `exact = sum + c * 2^n` for each element, with a whole
// number c, its carry. Carries of partial sums add up to the carry of the whole, so whether the
// whole leaves its type does not depend on who adds what. Each node adds `weight(element) * c` of
// what it summed to the numbers of its operands, modulo 2^64. The total is 0 if no element of the
// whole has a carry, and is not 0 otherwise, but for one case in about 2^48 (carries are below
// 2^15).

#include <cstdint>

namespace innet::reduction {

/// An odd number for an element: its index, or its key.
constexpr std::uint64_t carry_weight(std::uint64_t element) {
    // The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
    std::uint64_t mixed = element + 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30U)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94d049bb133111eb;
    return (mixed ^ (mixed >> 31U)) | 1U;
}

/// Wide enough for the exact sum of as many operands of 64 bits as a reduction has.
__extension__ using Exact = __int128;

/// The part of an element in the number of its segment: `exact` is its sum, `bits` wide is its type
/// and `stored` is what is kept of the sum.
constexpr std::uint64_t carry_part(std::uint64_t element, Exact exact, Exact stored,
                                   unsigned bits) {
    return carry_weight(element) * static_cast<std::uint64_t>((exact - stored) >> bits);
}

}  // namespace innet::reduction
