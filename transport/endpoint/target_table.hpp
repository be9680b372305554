#pragma once
// The targets of all operations in flight: a slab, and an index by tensor name.

#include <cstdint>
#include <vector>

#include "transport/endpoint/operation_state.hpp"
#include "transport/fetch/loss_detector.hpp"
#include "transport/fetch/request_index.hpp"

namespace innet {

class TargetTable {
  public:
    static constexpr std::uint32_t kNone = RequestIndex::kNone;

    TargetState& operator[](std::uint32_t place) { return slab_[place]; }
    const TargetState& operator[](std::uint32_t place) const { return slab_[place]; }

    /// Adds a target; its name is that of its namer.
    std::uint32_t add(TargetState target);
    void remove(std::uint32_t place);

    /// Calls `visit(place)` for every target that fetches `tensor`. The table must not change
    /// meanwhile.
    template <typename Visit>
    void for_each(wire::NameView tensor, Visit visit) const {
        for (std::uint32_t place = by_hash_.find(tensor.hash()); place != kNone;
             place = slab_[place].next_of_same_hash) {
            if (slab_[place].namer.tensor() == tensor) visit(place);
        }
    }

    template <typename Visit>
    void for_each_in_use(Visit visit) const {
        for (const TargetState& target : slab_) {
            if (target.operation != nullptr) visit(target);
        }
    }

    /// A request's key tells its target and its segment.
    static RequestKey key(std::uint32_t place, std::uint64_t segment) {
        return (RequestKey{place} << kSegmentBits) | segment;
    }
    static std::uint32_t place_of(RequestKey key) {
        return static_cast<std::uint32_t>(key >> kSegmentBits);
    }
    static std::uint64_t segment_of(RequestKey key) {
        return key & ((RequestKey{1} << kSegmentBits) - 1);
    }
    static constexpr unsigned kSegmentBits = 40;

  private:
    std::vector<TargetState> slab_;
    std::vector<std::uint32_t> free_;
    RequestIndex by_hash_;  ///< the first of a chain
};

}  // namespace innet
