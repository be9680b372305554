#include "switch_emulator/reduction/formats/block_scaled/q8_format.hpp"

#include "switch_emulator/reduction/formats/block_scaled/q8.hpp"

namespace innet::reduction {

std::optional<std::string> Q8Sum::find_fault(wire::ByteView content) const {
    if (content.size() % kQ8BlockBytes == 0) return std::nullopt;
    return "which is no whole number of blocks";
}

std::size_t Q8Sum::max_result_size(std::span<const wire::ByteView> operands) const {
    return operands.front().size();
}

Reduced Q8Sum::reduce(std::span<const wire::ByteView> operands,
                      std::span<std::uint8_t> result) const {
    q8_sum(operands, result);
    return {ReduceStatus::kOk, result.size()};
}

const Format* find_block_scaled_format(std::string_view op, std::string_view type) {
    static const Q8Sum q8_sum_format;
    return op == "sum" && type == "q8" ? &q8_sum_format : nullptr;
}

}  // namespace innet::reduction
