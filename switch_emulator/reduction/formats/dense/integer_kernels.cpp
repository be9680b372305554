#include <cstring>

#include "switch_emulator/reduction/formats/carry.hpp"
#include "switch_emulator/reduction/formats/dense/elements/integers.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_families.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_loops.hpp"

namespace innet::reduction {

namespace {

INNET_KERNEL(reduce_i8, element::I8, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_i16, element::I16, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_i32, element::I32, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_i64, element::I64, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_u8, element::U8, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_u16, element::U16, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_u32, element::U32, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_u64, element::U64, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_bits, element::Bits, Op::kBand, Op::kBor, Op::kBxor)
INNET_KERNEL(reduce_bools, element::Bool, Op::kBand, Op::kBor, Op::kBxor)

/// The bitwise operation that does the same to truth values.
Op bitwise(Op op) {
    switch (op) {
        case Op::kSum:
        case Op::kMax:
            return Op::kBor;
        case Op::kProd:
        case Op::kMin:
            return Op::kBand;
        default:
            return op;
    }
}

template <typename T>
std::uint64_t carry_of_type(std::span<const wire::ByteView> operands, wire::ByteView result) {
    const auto load = [](wire::ByteView bytes, std::size_t index) {
        T value;
        std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
        return Exact{value};
    };
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < result.size() / sizeof(T); ++i) {
        Exact exact = 0;
        for (const wire::ByteView operand : operands) exact += load(operand, i);
        carry += carry_part(i, exact, load(result, i), 8 * sizeof(T));
    }
    return carry;
}

}  // namespace

std::uint64_t carry_of(DType dtype, std::span<const wire::ByteView> operands,
                       wire::ByteView result) {
    switch (dtype) {
        case DType::kI8:
            return carry_of_type<std::int8_t>(operands, result);
        case DType::kI16:
            return carry_of_type<std::int16_t>(operands, result);
        case DType::kI32:
            return carry_of_type<std::int32_t>(operands, result);
        case DType::kI64:
            return carry_of_type<std::int64_t>(operands, result);
        case DType::kU8:
            return carry_of_type<std::uint8_t>(operands, result);
        case DType::kU16:
            return carry_of_type<std::uint16_t>(operands, result);
        case DType::kU32:
            return carry_of_type<std::uint32_t>(operands, result);
        case DType::kU64:
            return carry_of_type<std::uint64_t>(operands, result);
        default:
            return 0;
    }
}

bool reduce_integers(Op op, DType dtype, std::span<const wire::ByteView> operands,
                     std::span<std::uint8_t> result) {
    if (is_bitwise(op)) return reduce_bits(op, operands, result);
    switch (dtype) {
        case DType::kI8:
            return reduce_i8(op, operands, result);
        case DType::kI16:
            return reduce_i16(op, operands, result);
        case DType::kI32:
            return reduce_i32(op, operands, result);
        case DType::kI64:
            return reduce_i64(op, operands, result);
        case DType::kU8:
            return reduce_u8(op, operands, result);
        case DType::kU16:
            return reduce_u16(op, operands, result);
        case DType::kU32:
            return reduce_u32(op, operands, result);
        case DType::kU64:
            return reduce_u64(op, operands, result);
        default:
            return false;
    }
}

bool reduce_logical(Op op, std::span<const wire::ByteView> operands,
                    std::span<std::uint8_t> result) {
    return reduce_bools(bitwise(op), operands, result);
}

}  // namespace innet::reduction
