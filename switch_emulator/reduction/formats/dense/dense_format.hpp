#pragma once
// Tensors with every element present: `sum.f32`, `bxor.u8`, ….

#include <string_view>

#include "switch_emulator/reduction/formats/dense/dtype.hpp"
#include "switch_emulator/reduction/formats/format.hpp"

namespace innet::reduction {

class DenseFormat final : public Format {
  public:
    constexpr DenseFormat(Op op, DType dtype) : op_(op), dtype_(dtype) {}

    Op op() const { return op_; }
    DType dtype() const { return dtype_; }

    std::optional<std::string> find_fault(wire::ByteView content) const override;
    bool has_fixed_size() const override { return true; }
    std::size_t max_result_size(std::span<const wire::ByteView> operands) const override;
    Reduced reduce(std::span<const wire::ByteView> operands,
                   std::span<std::uint8_t> result) const override;

  private:
    Op op_;
    DType dtype_;
};

/// Null when there is no such operation or type, or the type knows no such operation.
const Format* find_dense_format(std::string_view op, std::string_view type);

}  // namespace innet::reduction
