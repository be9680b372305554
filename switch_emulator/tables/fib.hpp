#pragma once
// Forwarding information base: which faces lead towards a name.

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/tables/name_prefixes.hpp"
#include "transport/wire/name.hpp"

namespace innet::tables {

struct NextHop {
    FaceId face = kNoFace;
    std::uint32_t cost = 0;
};

struct FibEntry {
    wire::Name prefix;
    std::vector<NextHop> next_hops;  ///< cheapest first; of equal cost, the lower face first
};

/// Longest prefix match by the hashes of a name's prefixes; a hit is compared in full.
/// Prefixes of more than `NamePrefixes::kMaxPrefixComponents` components never match.
class Fib {
  public:
    /// Adds a next hop, or changes its cost.
    void add(const wire::Name& prefix, FaceId face, std::uint32_t cost);
    void remove(const wire::Name& prefix, FaceId face);
    void remove_face(FaceId face);

    /// Next hops of the longest prefix that has any, cheapest first; empty when there is no route.
    std::span<const NextHop> longest_prefix_match(const NamePrefixes& name) const;

    template <typename Visit>
    void for_each(Visit&& visit) const {
        for (const auto& [hash, entries] : entries_) {
            for (const FibEntry& entry : entries) visit(entry);
        }
    }

  private:
    FibEntry* find(const wire::Name& prefix);
    void drop_empty_entries();

    std::unordered_map<wire::NameHash, std::vector<FibEntry>> entries_;
    /// Number of entries with that many components: lengths without any are not looked up.
    std::array<std::uint32_t, NamePrefixes::kMaxPrefixComponents + 1> entries_by_depth_{};
};

}  // namespace innet::tables
