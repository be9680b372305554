#include "switch_emulator/reduction/formats/dense/dtype.hpp"

#include <algorithm>

namespace innet::reduction {

namespace {

/// By number of the operation.
constexpr std::array<std::string_view, kOpCount> kOps{"sum",  "min", "max", "prod",
                                                      "band", "bor", "bxor"};

}  // namespace

std::optional<Op> parse_op(std::string_view text) {
    const auto* found = std::ranges::find(kOps, text);
    if (found == kOps.end()) return std::nullopt;
    return static_cast<Op>(found - kOps.begin());
}

std::optional<DType> parse_dtype(std::string_view text) {
    const auto* found = std::ranges::find(kDTypes, text, &DTypeDescription::name);
    if (found == kDTypes.end()) return std::nullopt;
    return static_cast<DType>(found - kDTypes.begin());
}

}  // namespace innet::reduction
