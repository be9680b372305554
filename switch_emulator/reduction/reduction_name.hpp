#pragma once
// Names of reductions: /<job>/<group>/<interval>/<op>.<dtype>/seq=<n>/seg=<k>, or with
// <op>.<dtype>.of-<set> over some of the ranks (docs/protocol.md, Names).

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "switch_emulator/reduction/contributor_set.hpp"
#include "switch_emulator/reduction/formats/format.hpp"
#include "transport/wire/name.hpp"

namespace innet::reduction {

/// Longest name of a reduction, and longest interval component, in bytes of TLV.
inline constexpr std::size_t kMaxReductionName = 512;
inline constexpr std::size_t kMaxInterval = 64;

using OperandNameBuffer = std::array<std::uint8_t, kMaxReductionName + kMaxInterval>;

/// A name parsed from its end. A view: the name's bytes must outlive it.
class ReductionName {
  public:
    /// Nothing when the name has another form, an unknown format, or is too long.
    static std::optional<ReductionName> parse(wire::NameView name);

    wire::NameView whole() const { return wire::NameView::trusted(bytes_); }
    wire::NameView group() const { return wire::NameView::trusted(bytes_.first(group_size_)); }
    /// The interval component, with its type and length.
    wire::ByteView interval() const { return bytes_.subspan(group_size_, interval_size_); }
    /// The operation and type in `<op>.<dtype>`.
    const Format& format() const { return *format_; }
    /// The ranks whose contributions are reduced; operands without any are omitted.
    ContributorSet contributors() const;
    std::uint64_t sequence() const { return sequence_; }
    std::uint64_t segment() const { return segment_; }
    wire::NameHash hash() const { return hash_; }
    /// Hash of the group prefix and the interval: the key of a rule.
    wire::NameHash rule_hash() const { return rule_hash_; }

    /// This name over `copy`, which must have the same bytes.
    ReductionName moved_to(wire::ByteView copy) const;

    /// Name of an operand: this one with its interval replaced by the component `interval` (at most
    /// kMaxInterval bytes).
    wire::NameView operand(wire::ByteView interval, OperandNameBuffer& buffer) const;

    /// Hashes of an operand's name without and with its segment component.
    struct OperandHash {
        wire::NameHash publication = 0;
        wire::NameHash name = 0;
        std::uint64_t segment = 0;
        /// Segments of one shard are requested and sent in order; those of several shards are not.
        std::uint32_t shard = 0;
    };
    /// `operand`: hashed so far: the group prefix and the operand's interval. `shards`: how many
    /// the segments are dealt to.
    OperandHash operand_hash(wire::NameHasher operand, std::size_t shards = 1) const;

  private:
    wire::ByteView after_interval() const { return bytes_.subspan(group_size_ + interval_size_); }

    wire::ByteView bytes_;
    std::size_t group_size_ = 0;
    std::size_t interval_size_ = 0;
    std::size_t segment_size_ = 0;  ///< the last component, with its type and length
    std::size_t set_offset_ = 0;
    std::size_t set_size_ = 0;  ///< 0: all ranks
    wire::NameHash rule_hash_ = 0;
    wire::NameHash hash_ = 0;
    std::uint64_t sequence_ = 0;
    std::uint64_t segment_ = 0;
    const Format* format_ = nullptr;
};

/// Whether the interval is a single rank, whose contribution depends on no operand.
bool is_contribution(wire::ByteView interval_component);

/// The interval of a component's value as text, such as `0-3`.
std::string interval_text(wire::ByteView interval_component);

}  // namespace innet::reduction
