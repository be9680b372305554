#include "switch_emulator/reduction/formats/dense/elements/floats.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_families.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_loops.hpp"

namespace innet::reduction {

namespace {

INNET_KERNEL(reduce_f32, element::F32, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_f64, element::F64, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_f16, element::F16, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_bf16, element::Bf16, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_e4m3fn, element::E4m3fn, Op::kSum, Op::kMin, Op::kMax, Op::kProd)
INNET_KERNEL(reduce_e5m2, element::E5m2, Op::kSum, Op::kMin, Op::kMax, Op::kProd)

}  // namespace

bool reduce_reals(Op op, DType dtype, std::span<const wire::ByteView> operands,
                  std::span<std::uint8_t> result) {
    switch (dtype) {
        case DType::kF32:
            return reduce_f32(op, operands, result);
        case DType::kF64:
            return reduce_f64(op, operands, result);
        case DType::kF16:
            return reduce_f16(op, operands, result);
        case DType::kBf16:
            return reduce_bf16(op, operands, result);
        case DType::kE4m3fn:
            return reduce_e4m3fn(op, operands, result);
        case DType::kE5m2:
            return reduce_e5m2(op, operands, result);
        default:
            return false;
    }
}

}  // namespace innet::reduction
