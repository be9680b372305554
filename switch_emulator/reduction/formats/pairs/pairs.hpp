#pragma once
// Reductions over sorted key-value pairs: the union of the operands' keys, and the values of equal
// keys reduced. The layout is that of docs/protocol.md, Pairs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "switch_emulator/reduction/formats/dense/dtype.hpp"
#include "switch_emulator/reduction/formats/format.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::reduction {

enum class KeyType : std::uint8_t { kU32, kU64 };

/// Elements of a block, the value of a pair in a block-sparse sum.
inline constexpr std::size_t kSparseBlockElements = 32;

/// What a pair is made of: `width` elements to a key. Single ones are f32, f64 or i64.
struct PairFormat {
    KeyType key = KeyType::kU64;
    DType value = DType::kF64;
    std::size_t width = 1;

    constexpr std::size_t key_size() const { return key == KeyType::kU32 ? 4 : 8; }
    constexpr std::size_t value_size() const { return width * element_size(value); }
    constexpr std::size_t pair_size() const { return key_size() + value_size(); }
    bool operator==(const PairFormat&) const = default;
};

/// Block-sparse tensors: a block's index, and its elements.
inline constexpr PairFormat kSparseBlocks{KeyType::kU32, DType::kF32, kSparseBlockElements};
inline constexpr std::string_view kSparseBlocksName = "u32-f32x32";

/// `sum`, `min`, `max` and `prod`; of blocks `sum` alone.
constexpr bool is_keyed_op(Op op, PairFormat format) {
    return format == kSparseBlocks ? op == Op::kSum : !is_bitwise(op);
}

/// `u64-f32` and the like, or `u32-f32x32` for blocks; nothing for any other word.
std::optional<PairFormat> parse_pair_format(std::string_view text);

/// The number of pairs stands before them.
inline constexpr std::size_t kPairCountBytes = 4;

/// Number of pairs; nothing when `content` is truncated, has bytes to spare, or its keys do not
/// ascend strictly.
std::optional<std::size_t> count_pairs(PairFormat format, wire::ByteView content);

/// Merges operands; keeps its memory from one merge to the next.
class PairMerger {
  public:
    /// The union of the operands' keys. Values of equal keys are reduced strictly from left to
    /// right, with the arithmetic of `reduce`; a key that an operand lacks takes no part. Each
    /// operand is well-formed (`count_pairs`), and there is at least one; `op` and `format` are
    /// `is_keyed_op`. Elements of a block are reduced each with its own.
    /// Returns the carry (carry.hpp) of the sums of integers, by key.
    std::uint64_t merge(Op op, PairFormat format, std::span<const wire::ByteView> operands);

    /// Size of the result of the last merge as content of a segment.
    std::size_t size_bytes() const {
        return kPairCountBytes + merged().count * format_.pair_size();
    }
    /// Writes the result of the last merge; `content` has `size_bytes`.
    void write(std::span<std::uint8_t> content) const;

    /// Pairs on their way: memory for keys and for values, and how many there are.
    struct Run {
        std::vector<std::uint8_t> keys;
        std::vector<std::uint8_t> values;
        std::size_t count = 0;
    };

  private:
    const Run& merged() const { return runs_[latest_]; }
    template <typename Key>
    std::uint64_t carry_of(std::span<const wire::ByteView> operands);

    PairFormat format_;
    std::array<Run, 2> runs_;  ///< the result so far, and where the next is written
    std::size_t latest_ = 0;
    std::vector<std::size_t> places_;  ///< the next pair of each operand
};

}  // namespace innet::reduction
