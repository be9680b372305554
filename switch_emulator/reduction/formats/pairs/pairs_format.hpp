#pragma once
// Key-value pairs, reduced by key: `sum.u64-f32` and the like, and `sum.u32-f32x32` for blocks.

#include <string_view>

#include "switch_emulator/reduction/formats/format.hpp"
#include "switch_emulator/reduction/formats/pairs/pairs.hpp"

namespace innet::reduction {

class PairsFormat final : public Format {
  public:
    constexpr PairsFormat(Op op, PairFormat pairs) : op_(op), pairs_(pairs) {}

    Op op() const { return op_; }
    const PairFormat& pairs() const { return pairs_; }

    std::optional<std::string> find_fault(wire::ByteView content) const override;
    bool has_fixed_size() const override { return false; }
    std::size_t max_result_size(std::span<const wire::ByteView> operands) const override;
    Reduced reduce(std::span<const wire::ByteView> operands,
                   std::span<std::uint8_t> result) const override;

  private:
    Op op_;
    PairFormat pairs_;
};

/// Null when there is no such operation on pairs, or no such type of pairs.
const Format* find_pairs_format(std::string_view op, std::string_view type);

}  // namespace innet::reduction
