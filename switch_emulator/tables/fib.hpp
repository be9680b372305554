#pragma once
// Forwarding information base: which faces lead towards a name.

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "switch_emulator/forwarding/face.hpp"
#include "switch_emulator/tables/prefix_table.hpp"

namespace innet::tables {

struct NextHop {
    FaceId face = kNoFace;
    std::uint32_t cost = 0;
};

struct FibEntry {
    wire::Name prefix;
    std::vector<NextHop> next_hops;  ///< cheapest first; of equal cost, the lower face first
};

class Fib {
  public:
    /// Adds a next hop, or changes its cost.
    void add(const wire::Name& prefix, FaceId face, std::uint32_t cost);
    void remove(const wire::Name& prefix, FaceId face);
    /// Takes no time when no next hop is that face, and otherwise looks at all entries.
    void remove_face(FaceId face);
    bool contains(const wire::Name& prefix, FaceId face) const;
    std::size_t next_hops() const { return next_hops_; }
    std::size_t next_hops_of(FaceId face) const {
        return face < next_hops_of_face_.size() ? next_hops_of_face_[face] : 0;
    }

    /// The longest prefix that has next hops; null when there is no route.
    const FibEntry* longest_prefix_entry(const NamePrefixes& name) const {
        return entries_.longest_match(name);
    }
    /// Its next hops, cheapest first; empty when there is no route.
    std::span<const NextHop> longest_prefix_match(const NamePrefixes& name) const;

    template <typename Visit>
    void for_each(Visit&& visit) const {
        entries_.for_each(std::forward<Visit>(visit));
    }

  private:
    void erase_hop(FibEntry& entry, FaceId face);

    PrefixTable<FibEntry> entries_;
    std::size_t next_hops_ = 0;
    std::vector<std::size_t> next_hops_of_face_;
};

}  // namespace innet::tables
