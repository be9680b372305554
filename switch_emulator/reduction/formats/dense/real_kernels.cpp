#include "switch_emulator/reduction/formats/dense/elements/floats.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_families.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_loops.hpp"

namespace innet::reduction {

namespace {

template <typename Element>
INNET_INLINE ReduceStatus reduce_real(Op op, std::span<const wire::ByteView> operands,
                                      std::span<std::uint8_t> result) {
    return loops::reduce_elements<Element, Op::kSum, Op::kMin, Op::kMax, Op::kProd>(op, operands,
                                                                                    result);
}

}  // namespace

INNET_CPU_CLONES
ReduceStatus reduce_reals(Op op, DType dtype, std::span<const wire::ByteView> operands,
                          std::span<std::uint8_t> result) {
    switch (dtype) {
        case DType::kF32:
            return reduce_real<element::F32>(op, operands, result);
        case DType::kF64:
            return reduce_real<element::F64>(op, operands, result);
        case DType::kF16:
            return reduce_real<element::F16>(op, operands, result);
        case DType::kBf16:
            return reduce_real<element::Bf16>(op, operands, result);
        case DType::kE4m3fn:
            return reduce_real<element::E4m3fn>(op, operands, result);
        case DType::kE5m2:
            return reduce_real<element::E5m2>(op, operands, result);
        default:
            return ReduceStatus::kOk;
    }
}

}  // namespace innet::reduction
