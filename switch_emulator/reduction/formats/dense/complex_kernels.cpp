#include "switch_emulator/reduction/formats/dense/elements/complex.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_families.hpp"
#include "switch_emulator/reduction/formats/dense/kernel_loops.hpp"

namespace innet::reduction {

namespace {

INNET_CPU_CLONES
bool multiply(DType dtype, std::span<const wire::ByteView> operands,
              std::span<std::uint8_t> result) {
    if (dtype == DType::kC64) {
        return loops::reduce_elements<element::Complex<float>, Op::kProd>(Op::kProd, operands,
                                                                          result);
    }
    return loops::reduce_elements<element::Complex<double>, Op::kProd>(Op::kProd, operands, result);
}

}  // namespace

bool reduce_complex(Op op, DType dtype, std::span<const wire::ByteView> operands,
                    std::span<std::uint8_t> result) {
    if (op == Op::kProd) return multiply(dtype, operands, result);
    return reduce_reals(op, dtype == DType::kC64 ? DType::kF32 : DType::kF64, operands, result);
}

}  // namespace innet::reduction
