#pragma once
// Which ranks take part in a reduction, as its name says (docs/protocol.md, Sums over some ranks).

#include <optional>
#include <string_view>

#include "transport/wire/tlv.hpp"

namespace innet::reduction {

/// A view of a set's digits: the bytes of its name must outlive it.
class ContributorSet {
  public:
    /// All ranks.
    ContributorSet() = default;
    /// The ranks whose bits are set in a hexadecimal number, rank 0 the lowest bit. Nothing unless
    /// the number is canonical and not 0: lower case, without leading zeros.
    static std::optional<ContributorSet> parse(std::string_view digits);

    /// Whether a rank of the interval component (`3`, `0-3`, or `6-1` across the end of the circle)
    /// takes part. A component of another form has no ranks that a set could name.
    bool intersects(wire::ByteView interval_component) const;

  private:
    explicit ContributorSet(std::string_view digits) : digits_(digits) {}
    bool has_any(std::size_t first, std::size_t last) const;

    std::string_view digits_;  ///< empty: all ranks
};

}  // namespace innet::reduction
