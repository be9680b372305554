#include "switch_emulator/reduction/kernels.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstring>

#include "switch_emulator/reduction/element_types.hpp"

// One copy of all loops per generation of x86-64, chosen when the program is loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define INNET_CPU_CLONES \
    __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define INNET_CPU_CLONES
#endif

static_assert(std::endian::native == std::endian::little, "tensors are little-endian on the wire");

namespace innet::reduction {

namespace {

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
INNET_INLINE KernelStatus reduce_blocks(std::span<const ByteView> operands,
                                        std::span<std::uint8_t> result) {
    constexpr std::size_t kSize = sizeof(typename Element::Stored);
    typename Element::Flags flags{};
    const std::size_t elements = result.size() / kSize;
    for (std::size_t start = 0; start < elements; start += kBlockElements) {
        flags |= reduce_block<Element, kOp>(
            operands, start * kSize, std::min(kBlockElements, elements - start), result.data());
    }
    return flags == 0 ? KernelStatus::kOk : KernelStatus::kOverflow;
}

template <typename Element>
INNET_INLINE KernelStatus reduce_elements(Op op, std::span<const ByteView> operands,
                                          std::span<std::uint8_t> result) {
    switch (op) {
        case Op::kSum:
            return reduce_blocks<Element, Op::kSum>(operands, result);
        case Op::kMin:
            return reduce_blocks<Element, Op::kMin>(operands, result);
        case Op::kMax:
            return reduce_blocks<Element, Op::kMax>(operands, result);
        case Op::kProd:
            return reduce_blocks<Element, Op::kProd>(operands, result);
    }
    return KernelStatus::kOk;
}

INNET_CPU_CLONES
KernelStatus reduce_on_this_cpu(Op op, DType dtype, std::span<const ByteView> operands,
                                std::span<std::uint8_t> result) {
    switch (dtype) {
        case DType::kF32:
            return reduce_elements<element::F32>(op, operands, result);
        case DType::kF64:
            return reduce_elements<element::F64>(op, operands, result);
        case DType::kF16:
            return reduce_elements<element::F16>(op, operands, result);
        case DType::kBf16:
            return reduce_elements<element::Bf16>(op, operands, result);
        case DType::kI32:
            return reduce_elements<element::I32>(op, operands, result);
        case DType::kI64:
            return reduce_elements<element::I64>(op, operands, result);
        case DType::kU8:
            return reduce_elements<element::U8>(op, operands, result);
    }
    return KernelStatus::kOk;
}

}  // namespace

std::optional<Op> parse_op(std::string_view text) {
    if (text == "sum") return Op::kSum;
    if (text == "min") return Op::kMin;
    if (text == "max") return Op::kMax;
    if (text == "prod") return Op::kProd;
    return std::nullopt;
}

std::optional<DType> parse_dtype(std::string_view text) {
    if (text == "f32") return DType::kF32;
    if (text == "f64") return DType::kF64;
    if (text == "f16") return DType::kF16;
    if (text == "bf16") return DType::kBf16;
    if (text == "i32") return DType::kI32;
    if (text == "i64") return DType::kI64;
    if (text == "u8") return DType::kU8;
    return std::nullopt;
}

KernelStatus reduce(Op op, DType dtype, std::span<const ByteView> operands,
                    std::span<std::uint8_t> result) {
    assert(!operands.empty());
    return reduce_on_this_cpu(op, dtype, operands, result);
}

}  // namespace innet::reduction
