#pragma once
// `sum.q8`: sums of numbers in blocks with a scale of their own.

#include <string_view>

#include "switch_emulator/reduction/formats/format.hpp"

namespace innet::reduction {

class Q8Sum final : public Format {
  public:
    std::optional<std::string> find_fault(wire::ByteView content) const override;
    bool has_fixed_size() const override { return true; }
    std::size_t max_result_size(std::span<const wire::ByteView> operands) const override;
    Reduced reduce(std::span<const wire::ByteView> operands,
                   std::span<std::uint8_t> result) const override;
};

/// Null unless `op` is `sum` and `type` is `q8`.
const Format* find_block_scaled_format(std::string_view op, std::string_view type);

}  // namespace innet::reduction
