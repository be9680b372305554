#include "switch_emulator/reduction/formats/pairs/pairs.hpp"

#include <cassert>
#include <cstring>

#include "switch_emulator/reduction/formats/carry.hpp"
#include "switch_emulator/reduction/formats/dense/elements/floats.hpp"
#include "switch_emulator/reduction/formats/dense/elements/integers.hpp"

namespace innet::reduction {

namespace {

using wire::ByteView;

template <typename T>
INNET_INLINE T load(const std::uint8_t* bytes, std::size_t index) {
    T value;
    std::memcpy(&value, bytes + index * sizeof value, sizeof value);
    return value;
}

template <typename T>
INNET_INLINE void store(std::uint8_t* bytes, std::size_t index, T value) {
    std::memcpy(bytes + index * sizeof value, &value, sizeof value);
}

/// Pairs as they lie in a packet or in a run, at any alignment.
struct PairSpan {
    const std::uint8_t* keys;
    const std::uint8_t* values;
    std::size_t count;
};

PairSpan span_of(PairFormat format, ByteView content) {
    const auto count = load<std::uint32_t>(content.data(), 0);
    const std::uint8_t* keys = content.data() + kPairCountBytes;
    return {keys, keys + count * format.key_size(), count};
}

PairSpan span_of(const PairMerger::Run& run) {
    return {run.keys.data(), run.values.data(), run.count};
}

template <typename Key>
bool ascends(const std::uint8_t* keys, std::size_t count) {
    bool ascending = true;
    for (std::size_t i = 1; i < count; ++i) {
        ascending &= load<Key>(keys, i - 1) < load<Key>(keys, i);
    }
    return ascending;
}

/// Progress of a merge: pairs taken of each side, and pairs written.
struct MergeProgress {
    std::size_t left = 0;
    std::size_t right = 0;
    std::size_t count = 0;
};

/// Copies what is left of one side when the other is used up.
void append_rest(const PairSpan& left, const PairSpan& right, MergeProgress at,
                 std::size_t key_size, std::size_t value_size, PairMerger::Run& into) {
    const PairSpan& rest = at.left < left.count ? left : right;
    const std::size_t taken = at.left < left.count ? at.left : at.right;
    const std::size_t remaining = rest.count - taken;
    into.count = at.count + remaining;
    if (remaining == 0) return;
    std::memcpy(into.keys.data() + at.count * key_size, rest.keys + taken * key_size,
                remaining * key_size);
    std::memcpy(into.values.data() + at.count * value_size, rest.values + taken * value_size,
                remaining * value_size);
}

/// The union of `left` and `right` into `into`, which has room for all pairs of both.
template <typename Key, typename Element, typename Step>
typename Element::Flags merge_two(const PairSpan& left, const PairSpan& right,
                                  PairMerger::Run& into, Step step) {
    using Value = typename Element::Stored;
    typename Element::Flags flags{};
    std::uint8_t* const keys = into.keys.data();
    std::uint8_t* const values = into.values.data();
    MergeProgress at;
    // Selections instead of branches: the next side cannot be predicted.
    for (; at.left < left.count && at.right < right.count; ++at.count) {
        const Key a = load<Key>(left.keys, at.left);
        const Key b = load<Key>(right.keys, at.right);
        const Value x = load<Value>(left.values, at.left);
        const Value y = load<Value>(right.values, at.right);
        typename Element::Flags step_flags{};
        const Value both = step(x, y, step_flags);
        flags |= a == b ? step_flags : typename Element::Flags{};
        store(keys, at.count, a < b ? a : b);
        store(values, at.count, a < b ? x : (b < a ? y : both));
        at.left += a <= b ? 1 : 0;
        at.right += b <= a ? 1 : 0;
    }
    append_rest(left, right, at, sizeof(Key), sizeof(Value), into);
    return flags;
}

/// As `merge_two`, for blocks: too long to be added where they are not needed. Floats never leave
/// their type.
bool add_blocks(const PairSpan& left, const PairSpan& right, PairMerger::Run& into) {
    constexpr std::size_t kKeyBytes = kSparseBlocks.key_size();
    constexpr std::size_t kBlockBytes = kSparseBlocks.value_size();
    MergeProgress at;
    for (; at.left < left.count && at.right < right.count; ++at.count) {
        const auto a = load<std::uint32_t>(left.keys, at.left);
        const auto b = load<std::uint32_t>(right.keys, at.right);
        const std::uint8_t* const x = left.values + at.left * kBlockBytes;
        const std::uint8_t* const y = right.values + at.right * kBlockBytes;
        std::uint8_t* const block = into.values.data() + at.count * kBlockBytes;
        store(into.keys.data(), at.count, a < b ? a : b);
        if (a == b) {
            element::F32::Flags none{};
            for (std::size_t i = 0; i < kSparseBlockElements; ++i) {
                store(block, i, element::F32::sum(load<float>(x, i), load<float>(y, i), none));
            }
        } else {
            std::memcpy(block, a < b ? x : y, kBlockBytes);
        }
        at.left += a <= b ? 1 : 0;
        at.right += b <= a ? 1 : 0;
    }
    append_rest(left, right, at, kKeyBytes, kBlockBytes, into);
    return false;
}

using MergeTwo = bool (*)(const PairSpan&, const PairSpan&, PairMerger::Run&);

/// True when a sum left its type.
template <typename Key, typename Element, Op kOp>
bool merge_with(const PairSpan& left, const PairSpan& right, PairMerger::Run& into) {
    static_assert(std::is_same_v<typename Element::Stored, typename Element::Accumulator>,
                  "partial results are kept as they are stored");
    const auto step = [](auto x, auto y, auto& flags) {
        if constexpr (kOp == Op::kSum) return Element::sum(x, y, flags);
        if constexpr (kOp == Op::kMin) return Element::min(x, y, flags);
        if constexpr (kOp == Op::kMax) return Element::max(x, y, flags);
        if constexpr (kOp == Op::kProd) return Element::prod(x, y, flags);
    };
    return merge_two<Key, Element>(left, right, into, step) != typename Element::Flags{};
}

template <typename Key, typename Element>
MergeTwo choose_op(Op op) {
    switch (op) {
        case Op::kSum:
            return merge_with<Key, Element, Op::kSum>;
        case Op::kMin:
            return merge_with<Key, Element, Op::kMin>;
        case Op::kMax:
            return merge_with<Key, Element, Op::kMax>;
        default:
            return merge_with<Key, Element, Op::kProd>;
    }
}

template <typename Key>
MergeTwo choose_value(Op op, DType value) {
    if (value == DType::kF32) return choose_op<Key, element::F32>(op);
    if (value == DType::kF64) return choose_op<Key, element::F64>(op);
    return choose_op<Key, element::I64>(op);
}

MergeTwo choose_merge(Op op, PairFormat format) {
    if (format == kSparseBlocks) return add_blocks;
    return format.key == KeyType::kU32 ? choose_value<std::uint32_t>(op, format.value)
                                       : choose_value<std::uint64_t>(op, format.value);
}

void make_room(PairMerger::Run& run, PairFormat format, std::size_t pairs) {
    const std::size_t key_bytes = pairs * format.key_size();
    const std::size_t value_bytes = pairs * format.value_size();
    if (run.keys.size() < key_bytes) run.keys.resize(key_bytes);
    if (run.values.size() < value_bytes) run.values.resize(value_bytes);
}

}  // namespace

std::optional<PairFormat> parse_pair_format(std::string_view text) {
    if (text == kSparseBlocksName) return kSparseBlocks;
    const std::size_t dash = text.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    const std::string_view key = text.substr(0, dash);
    const auto value = parse_dtype(text.substr(dash + 1));
    const bool known_value = value == DType::kF32 || value == DType::kF64 || value == DType::kI64;
    if (!known_value || (key != "u32" && key != "u64")) return std::nullopt;
    return PairFormat{key == "u32" ? KeyType::kU32 : KeyType::kU64, *value};
}

std::optional<std::size_t> count_pairs(PairFormat format, ByteView content) {
    if (content.size() < kPairCountBytes) return std::nullopt;
    const PairSpan pairs = span_of(format, content.first(kPairCountBytes));
    if (content.size() - kPairCountBytes != pairs.count * format.pair_size()) return std::nullopt;
    const std::uint8_t* keys = content.data() + kPairCountBytes;
    const bool ascending = format.key == KeyType::kU32 ? ascends<std::uint32_t>(keys, pairs.count)
                                                       : ascends<std::uint64_t>(keys, pairs.count);
    return ascending ? std::optional(pairs.count) : std::nullopt;
}

template <typename Key>
std::uint64_t PairMerger::carry_of(std::span<const ByteView> operands) {
    places_.assign(operands.size(), 0);
    std::uint64_t carry = 0;
    for (std::size_t i = 0; i < merged().count; ++i) {
        const Key key = load<Key>(merged().keys.data(), i);
        Exact exact = 0;
        for (std::size_t k = 0; k < operands.size(); ++k) {
            const PairSpan pairs = span_of(format_, operands[k]);
            if (places_[k] == pairs.count || load<Key>(pairs.keys, places_[k]) != key) continue;
            exact += load<std::int64_t>(pairs.values, places_[k]++);
        }
        carry += carry_part(key, exact, load<std::int64_t>(merged().values.data(), i), 64);
    }
    return carry;
}

std::uint64_t PairMerger::merge(Op op, PairFormat format, std::span<const ByteView> operands) {
    assert(!operands.empty() && is_keyed_op(op, format));
    format_ = format;
    const MergeTwo merge_two_of_this_kind = choose_merge(op, format);
    bool may_carry = false;
    // From an empty left side, the first operand is copied.
    runs_[latest_].count = 0;
    for (const ByteView operand : operands) {
        const PairSpan right = span_of(format, operand);
        Run& into = runs_[1 - latest_];
        make_room(into, format, merged().count + right.count);
        may_carry |= merge_two_of_this_kind(span_of(merged()), right, into);
        latest_ = 1 - latest_;
    }
    if (!may_carry) return 0;
    return format.key == KeyType::kU32 ? carry_of<std::uint32_t>(operands)
                                       : carry_of<std::uint64_t>(operands);
}

void PairMerger::write(std::span<std::uint8_t> content) const {
    assert(content.size() == size_bytes());
    const Run& run = merged();
    store(content.data(), 0, static_cast<std::uint32_t>(run.count));
    const std::size_t key_bytes = run.count * format_.key_size();
    if (run.count == 0) return;
    std::memcpy(content.data() + kPairCountBytes, run.keys.data(), key_bytes);
    std::memcpy(content.data() + kPairCountBytes + key_bytes, run.values.data(),
                run.count * format_.value_size());
}

}  // namespace innet::reduction
