#include "switch_emulator/reduction/formats/dense/dense_format.hpp"

#include <array>
#include <utility>

#include "switch_emulator/reduction/formats/dense/kernels.hpp"

namespace innet::reduction {

namespace {

template <std::size_t... kIndex>
std::array<DenseFormat, sizeof...(kIndex)> make_formats(std::index_sequence<kIndex...>) {
    return {DenseFormat(static_cast<Op>(kIndex / kDTypeCount),
                        static_cast<DType>(kIndex % kDTypeCount))...};
}

}  // namespace

std::optional<std::string> DenseFormat::find_fault(wire::ByteView content) const {
    if (content.size() % element_size(dtype_) == 0) return std::nullopt;
    return "which is no whole number of elements";
}

std::size_t DenseFormat::max_result_size(std::span<const wire::ByteView> operands) const {
    return operands.front().size();
}

Reduced DenseFormat::reduce(std::span<const wire::ByteView> operands,
                            std::span<std::uint8_t> result) const {
    const bool carries = innet::reduction::reduce(op_, dtype_, operands, result);
    return {ReduceStatus::kOk, result.size(), carries ? carry_of(dtype_, operands, result) : 0};
}

const Format* find_dense_format(std::string_view op, std::string_view type) {
    static const auto formats = make_formats(std::make_index_sequence<kOpCount * kDTypeCount>());
    const auto known_op = parse_op(op);
    const auto known_type = parse_dtype(type);
    if (!known_op || !known_type || !supports(*known_type, *known_op)) return nullptr;
    return &formats[static_cast<std::size_t>(*known_op) * kDTypeCount +
                    static_cast<std::size_t>(*known_type)];
}

}  // namespace innet::reduction
