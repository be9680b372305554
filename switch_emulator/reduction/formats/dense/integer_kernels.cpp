#include "switch_emulator/reduction/formats/dense/elements/integers.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_families.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_loops.hpp"

namespace innet::reduction {

namespace {

template <typename Element>
INNET_INLINE ReduceStatus reduce_integer(Op op, std::span<const wire::ByteView> operands,
                                         std::span<std::uint8_t> result) {
    return loops::reduce_elements<Element, Op::kSum, Op::kMin, Op::kMax, Op::kProd>(op, operands,
                                                                                    result);
}

template <typename Element>
INNET_INLINE ReduceStatus reduce_bits(Op op, std::span<const wire::ByteView> operands,
                                      std::span<std::uint8_t> result) {
    return loops::reduce_elements<Element, Op::kBand, Op::kBor, Op::kBxor>(op, operands, result);
}

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

}  // namespace

INNET_CPU_CLONES
ReduceStatus reduce_integers(Op op, DType dtype, std::span<const wire::ByteView> operands,
                             std::span<std::uint8_t> result) {
    if (is_bitwise(op)) return reduce_bits<element::Bits>(op, operands, result);
    switch (dtype) {
        case DType::kI8:
            return reduce_integer<element::I8>(op, operands, result);
        case DType::kI16:
            return reduce_integer<element::I16>(op, operands, result);
        case DType::kI32:
            return reduce_integer<element::I32>(op, operands, result);
        case DType::kI64:
            return reduce_integer<element::I64>(op, operands, result);
        case DType::kU8:
            return reduce_integer<element::U8>(op, operands, result);
        case DType::kU16:
            return reduce_integer<element::U16>(op, operands, result);
        case DType::kU32:
            return reduce_integer<element::U32>(op, operands, result);
        case DType::kU64:
            return reduce_integer<element::U64>(op, operands, result);
        default:
            return ReduceStatus::kOk;
    }
}

INNET_CPU_CLONES
ReduceStatus reduce_logical(Op op, std::span<const wire::ByteView> operands,
                            std::span<std::uint8_t> result) {
    return reduce_bits<element::Bool>(bitwise(op), operands, result);
}

}  // namespace innet::reduction
