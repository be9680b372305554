#include "switch_emulator/reduction/formats/pairs/pairs_format.hpp"

#include <array>
#include <utility>

namespace innet::reduction {

namespace {

constexpr std::array kKeys{KeyType::kU32, KeyType::kU64};
constexpr std::array kValues{DType::kF32, DType::kF64, DType::kI64};
constexpr std::array kOps{Op::kSum, Op::kMin, Op::kMax, Op::kProd};
constexpr std::size_t kFormatsOfOneElement = kKeys.size() * kValues.size() * kOps.size();
constexpr std::size_t kFormats = kFormatsOfOneElement + 1;

constexpr PairsFormat format_number(std::size_t number) {
    if (number == kFormatsOfOneElement) return {Op::kSum, kSparseBlocks};
    const std::size_t type = number / kOps.size();
    return {kOps[number % kOps.size()],
            {kKeys[type / kValues.size()], kValues[type % kValues.size()]}};
}

template <std::size_t... kIndex>
constexpr std::array<PairsFormat, kFormats> make_formats(std::index_sequence<kIndex...>) {
    return {format_number(kIndex)...};
}

}  // namespace

std::optional<std::string> PairsFormat::find_fault(wire::ByteView content) const {
    if (count_pairs(pairs_, content)) return std::nullopt;
    return "which are no pairs in ascending order of their keys";
}

std::size_t PairsFormat::max_result_size(std::span<const wire::ByteView> operands) const {
    std::size_t size = kPairCountBytes;
    for (const wire::ByteView operand : operands) size += operand.size() - kPairCountBytes;
    return size;
}

Reduced PairsFormat::reduce(std::span<const wire::ByteView> operands,
                            std::span<std::uint8_t> result) const {
    // Memory of the merge's steps is kept, one per thread that reduces.
    thread_local PairMerger merger;
    const std::uint64_t carry = merger.merge(op_, pairs_, operands);
    const std::size_t size = merger.size_bytes();
    if (size > result.size()) return {ReduceStatus::kTooLarge, 0};
    merger.write(result.first(size));
    return {ReduceStatus::kOk, size, carry};
}

const Format* find_pairs_format(std::string_view op, std::string_view type) {
    static const auto formats = make_formats(std::make_index_sequence<kFormats>());
    const auto known_op = parse_op(op);
    const auto known_type = parse_pair_format(type);
    if (!known_op || !known_type) return nullptr;
    for (std::size_t i = 0; i < kFormats; ++i) {
        if (formats[i].op() == *known_op && formats[i].pairs() == *known_type) return &formats[i];
    }
    return nullptr;
}

}  // namespace innet::reduction
