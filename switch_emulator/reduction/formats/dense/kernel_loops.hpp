#pragma once
// The loops of all dense kernels: over blocks of elements, and in a block over the operands.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "switch_emulator/reduction/formats/dense/dtype.hpp"
#include "switch_emulator/reduction/formats/dense/elements/element.hpp"
#include "switch_emulator/reduction/formats/format.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::reduction::loops {

static_assert(std::endian::native == std::endian::little, "tensors are little-endian on the wire");

using wire::ByteView;

// Elements worked on before going to the next operands: the accumulators stay in the L1 cache.
constexpr std::size_t kBlockElements = 512;

template <typename Element>
using Accumulators = std::array<typename Element::Accumulator, kBlockElements>;

template <typename Element>
INNET_INLINE typename Element::Accumulator load(const std::uint8_t* bytes, std::size_t index) {
    typename Element::Stored stored;
    std::memcpy(&stored, bytes + index * sizeof stored, sizeof stored);
    return Element::widen(stored);
}

template <typename Element>
INNET_INLINE void store(std::uint8_t* bytes, std::size_t index, typename Element::Accumulator value,
                        typename Element::Flags& flags) {
    const typename Element::Stored stored = Element::narrow(value, flags);
    std::memcpy(bytes + index * sizeof stored, &stored, sizeof stored);
}

template <typename Element, Op kOp>
INNET_INLINE typename Element::Accumulator step(typename Element::Accumulator left,
                                                typename Element::Accumulator right,
                                                typename Element::Flags& flags) {
    if constexpr (kOp == Op::kSum) return Element::sum(left, right, flags);
    if constexpr (kOp == Op::kMin) return Element::min(left, right, flags);
    if constexpr (kOp == Op::kMax) return Element::max(left, right, flags);
    if constexpr (kOp == Op::kProd) return Element::prod(left, right, flags);
    if constexpr (kOp == Op::kBand) return Element::band(left, right, flags);
    if constexpr (kOp == Op::kBor) return Element::bor(left, right, flags);
    if constexpr (kOp == Op::kBxor) return Element::bxor(left, right, flags);
}

/// Adds `kOperands` operands to the accumulators (or starts them, when `kFirst`) in one pass.
template <typename Element, Op kOp, std::size_t kOperands, bool kFirst>
INNET_INLINE typename Element::Flags accumulate(const ByteView* operands, std::size_t offset_bytes,
                                                std::size_t count,
                                                Accumulators<Element>& accumulators) {
    std::array<const std::uint8_t*, kOperands> bytes;
    for (std::size_t k = 0; k < kOperands; ++k) bytes[k] = operands[k].data() + offset_bytes;
    typename Element::Accumulator* const sums = accumulators.data();
    typename Element::Flags flags{};
    for (std::size_t i = 0; i < count; ++i) {
        auto value = kFirst ? load<Element>(bytes[0], i)
                            : step<Element, kOp>(sums[i], load<Element>(bytes[0], i), flags);
        if constexpr (kOperands > 1)
            value = step<Element, kOp>(value, load<Element>(bytes[1], i), flags);
        if constexpr (kOperands > 2)
            value = step<Element, kOp>(value, load<Element>(bytes[2], i), flags);
        if constexpr (kOperands > 3)
            value = step<Element, kOp>(value, load<Element>(bytes[3], i), flags);
        sums[i] = value;
    }
    return flags;
}

template <typename Element, Op kOp>
INNET_INLINE typename Element::Flags reduce_block(std::span<const ByteView> operands,
                                                  std::size_t offset_bytes, std::size_t count,
                                                  std::uint8_t* result) {
    Accumulators<Element> accumulators;
    typename Element::Flags flags{};
    std::size_t next = 0;
    if (operands.size() >= 4) {
        flags |=
            accumulate<Element, kOp, 4, true>(operands.data(), offset_bytes, count, accumulators);
        next = 4;
    } else {
        flags |=
            accumulate<Element, kOp, 1, true>(operands.data(), offset_bytes, count, accumulators);
        next = 1;
    }
    for (; next + 4 <= operands.size(); next += 4) {
        flags |= accumulate<Element, kOp, 4, false>(operands.data() + next, offset_bytes, count,
                                                    accumulators);
    }
    for (; next < operands.size(); ++next) {
        flags |= accumulate<Element, kOp, 1, false>(operands.data() + next, offset_bytes, count,
                                                    accumulators);
    }
    typename Element::Flags narrowing{};
    for (std::size_t i = 0; i < count; ++i) {
        store<Element>(result + offset_bytes, i, accumulators[i], narrowing);
    }
    return flags | narrowing;
}

template <typename Element, Op kOp>
INNET_INLINE bool reduce_blocks(std::span<const ByteView> operands,
                                std::span<std::uint8_t> result) {
    constexpr std::size_t kSize = sizeof(typename Element::Stored);
    typename Element::Flags flags{};
    const std::size_t elements = result.size() / kSize;
    for (std::size_t start = 0; start < elements; start += kBlockElements) {
        flags |= reduce_block<Element, kOp>(
            operands, start * kSize, std::min(kBlockElements, elements - start), result.data());
    }
    return flags != 0;
}

/// Reduces with `op`, which is one of `kOps`: those that the element knows.
template <typename Element, Op... kOps>
INNET_INLINE bool reduce_elements(Op op, std::span<const ByteView> operands,
                                  std::span<std::uint8_t> result) {
    bool carries = false;
    const auto run = [&]<Op kOp>() __attribute__((always_inline)) {
        if (op == kOp) carries = reduce_blocks<Element, kOp>(operands, result);
    };
    (run.template operator()<kOps>(), ...);
    return carries;
}

}  // namespace innet::reduction::loops

/// Defines the kernel `function` of one element type, which knows the operations behind it. A
/// function for each type: GCC takes five times as long for one function with all of their loops,
/// and makes no clones of a template.
#define INNET_KERNEL(function, Element, ...)                                        \
    INNET_CPU_CLONES bool function(Op op, std::span<const wire::ByteView> operands, \
                                   std::span<std::uint8_t> result) {                \
        return loops::reduce_elements<Element, __VA_ARGS__>(op, operands, result);  \
    }
