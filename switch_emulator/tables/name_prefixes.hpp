#pragma once
// The prefixes of one packet's name and their hashes, shared by all table look-ups.

#include <array>
#include <cstddef>

#include "transport/wire/name.hpp"

namespace innet::tables {

/// Walks a name once. Keeps the hash of the whole name, and for prefixes of up to
/// `kMaxPrefixComponents` components the state that their hashes are finished from: few of them are
/// ever probed.
class NamePrefixes {
  public:
    static constexpr std::size_t kMaxPrefixComponents = 32;

    explicit NamePrefixes(wire::NameView name);

    wire::NameView name() const { return name_; }
    /// Hash of the whole name.
    wire::NameHash hash() const { return hash_; }
    /// Type of the last component; 0 for the empty name.
    std::uint32_t last_type() const { return last_type_; }
    /// How many components there are up to the first reflexive one, with it; 0: there is none.
    std::size_t reflexive_depth() const { return reflexive_depth_; }
    /// Whether the name leads back to the sender of a trigger Interest.
    bool is_reflexive() const { return reflexive_depth_ == 1; }
    /// The longest prefix that can be looked up, in components.
    std::size_t depth() const { return depth_; }
    /// False for a name of more than `kMaxPrefixComponents` components.
    bool covers_whole_name() const { return ends_[depth_] == name_.value().size(); }
    /// `components <= depth()`.
    wire::NameHash hash(std::size_t components) const {
        return finished(words_[components], ends_[components]);
    }
    wire::NameView prefix(std::size_t components) const {
        return wire::NameView::trusted(name_.value().first(ends_[components]));
    }

  private:
    wire::NameHash finished(const wire::SipWords& words, std::size_t size) const {
        const std::size_t tail = size % wire::SipWords::kSize;
        return words.finished(wire::SipWords::load(name_.value().data() + (size - tail), tail),
                              size);
    }

    wire::NameView name_;
    wire::NameHash hash_;
    std::size_t depth_ = 0;
    std::size_t reflexive_depth_ = 0;
    std::uint32_t last_type_ = 0;
    // Only the first depth_ + 1 are ever written or read: clearing them would cost more than the
    // walk.
    /// After the whole words of each prefix; the name's bytes have the rest.
    std::array<wire::SipWords, kMaxPrefixComponents + 1> words_;
    std::array<std::size_t, kMaxPrefixComponents + 1> ends_;
};

}  // namespace innet::tables
