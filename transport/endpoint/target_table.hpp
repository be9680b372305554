#pragma once
// The targets of all operations in flight: a slab, and an index by what they fetch.

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

    /// Calls `visit(place)` for every target that fetches that segment of `tensor`. The table must
    /// not change meanwhile. All of a tensor's targets would be too many to look at: a large
    /// network has as many roots of sums. No target fetches a segment whose number does not fit a
    /// key; names from the network may have such numbers.
    template <typename Visit>
    void for_each(wire::NameView tensor, std::uint64_t segment, Visit visit) const {
        if (segment >> kSegmentBits != 0) return;
        const wire::NameHash hash = tensor.hash();
        for (const UsedSharding& used : shardings_) {
            const std::uint64_t number = used.sharding.target_of(segment);
            for (std::uint32_t place = by_key_.find(index_key(hash, used.sharding, number));
                 place != kNone; place = slab_[place].next_of_same_key) {
                if (slab_[place].namer.tensor() == tensor) visit(place);
            }
        }
    }

    template <typename Visit>
    void for_each_in_use(Visit visit) const {
        for (const TargetState& target : slab_) {
            if (target.operation != nullptr) visit(target);
        }
    }

    /// A request's key encodes its target and its segment.
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
    /// How some targets' fetches are dealt out. Operations in flight are few, and most are alike.
    struct UsedSharding {
        Sharding sharding;
        std::size_t targets = 0;  ///< that use it
    };

    static std::uint64_t index_key(wire::NameHash tensor, const Sharding& sharding,
                                   std::uint64_t number);
    void use(const Sharding& sharding);
    void leave(const Sharding& sharding);

    std::vector<TargetState> slab_;
    std::vector<std::uint32_t> free_;
    std::vector<UsedSharding> shardings_;
    RequestIndex by_key_;  ///< the first of a chain
};

}  // namespace innet
