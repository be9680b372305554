#include "transport/endpoint/target_table.hpp"

#include <algorithm>
#include <utility>

namespace innet {

std::uint64_t TargetTable::index_key(wire::NameHash tensor, const Sharding& sharding,
                                     std::uint64_t number) {
    // Odd constants of 64 bits, so that small numbers change all of the key.
    return tensor ^ (number * 0x9e37'79b9'7f4a'7c15ULL) ^
           (sharding.targets * 0xc2b2'ae3d'27d4'eb4fULL) ^
           (sharding.segments_per_shard * 0x1656'67b1'9e37'79f9ULL);
}

void TargetTable::use(const Sharding& sharding) {
    const auto used = std::ranges::find(shardings_, sharding, &UsedSharding::sharding);
    if (used == shardings_.end()) {
        shardings_.push_back({sharding, 1});
    } else {
        ++used->targets;
    }
}

void TargetTable::leave(const Sharding& sharding) {
    const auto used = std::ranges::find(shardings_, sharding, &UsedSharding::sharding);
    if (--used->targets == 0) shardings_.erase(used);
}

std::uint32_t TargetTable::add(TargetState target) {
    std::uint32_t place = kNone;
    if (free_.empty()) {
        place = static_cast<std::uint32_t>(slab_.size());
        slab_.emplace_back();
    } else {
        place = free_.back();
        free_.pop_back();
    }
    const Sharding sharding(target.spec());
    use(sharding);
    target.index_key = index_key(target.hash, sharding, target.number);
    target.next_of_same_key = by_key_.find(target.index_key);
    if (target.next_of_same_key != kNone) by_key_.erase(target.index_key);
    by_key_.insert(target.index_key, place);
    slab_[place] = std::move(target);
    return place;
}

void TargetTable::remove(std::uint32_t place) {
    TargetState& removed = slab_[place];
    leave(Sharding(removed.spec()));
    const std::uint32_t first = by_key_.find(removed.index_key);
    if (first == place) {
        by_key_.erase(removed.index_key);
        if (removed.next_of_same_key != kNone) {
            by_key_.insert(removed.index_key, removed.next_of_same_key);
        }
    } else {
        std::uint32_t before = first;
        while (slab_[before].next_of_same_key != place) before = slab_[before].next_of_same_key;
        slab_[before].next_of_same_key = removed.next_of_same_key;
    }
    removed = TargetState{};
    free_.push_back(place);
}

}  // namespace innet
