#include "transport/endpoint/target_table.hpp"

#include <utility>

namespace innet {

std::uint32_t TargetTable::add(TargetState target) {
    std::uint32_t place = kNone;
    if (free_.empty()) {
        place = static_cast<std::uint32_t>(slab_.size());
        slab_.emplace_back();
    } else {
        place = free_.back();
        free_.pop_back();
    }
    target.next_of_same_hash = by_hash_.find(target.hash);
    if (target.next_of_same_hash != kNone) by_hash_.erase(target.hash);
    by_hash_.insert(target.hash, place);
    slab_[place] = std::move(target);
    return place;
}

void TargetTable::remove(std::uint32_t place) {
    TargetState& removed = slab_[place];
    const std::uint32_t first = by_hash_.find(removed.hash);
    if (first == place) {
        by_hash_.erase(removed.hash);
        if (removed.next_of_same_hash != kNone) {
            by_hash_.insert(removed.hash, removed.next_of_same_hash);
        }
    } else {
        std::uint32_t before = first;
        while (slab_[before].next_of_same_hash != place) before = slab_[before].next_of_same_hash;
        slab_[before].next_of_same_hash = removed.next_of_same_hash;
    }
    removed = TargetState{};
    free_.push_back(place);
}

}  // namespace innet
