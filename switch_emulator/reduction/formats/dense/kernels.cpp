#include "switch_emulator/reduction/formats/dense/kernels.hpp"

#include <cassert>

#include "switch_emulator/reduction/formats/dense/kernel_families.hpp"

namespace innet::reduction {

bool reduce(Op op, DType dtype, std::span<const wire::ByteView> operands,
            std::span<std::uint8_t> result) {
    assert(!operands.empty() && operands.size() <= kMaxOperands);
    assert(supports(dtype, op));
    switch (description(dtype).family) {
        case DTypeFamily::kReal:
            return reduce_reals(op, dtype, operands, result);
        case DTypeFamily::kComplex:
            return reduce_complex(op, dtype, operands, result);
        case DTypeFamily::kInteger:
            return reduce_integers(op, dtype, operands, result);
        case DTypeFamily::kLogical:
            return reduce_logical(op, operands, result);
    }
    return false;
}

}  // namespace innet::reduction
