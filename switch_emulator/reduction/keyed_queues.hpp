#pragma once
// Places of a table in queues that keys find, in the order in which they were added.

#include <cstdint>
#include <vector>

#include "switch_emulator/reduction/place_queues.hpp"
#include "transport/fetch/request_index.hpp"

namespace innet::reduction {

/// `PlaceQueues` with keys instead of numbers, such as the hash of what the places wait for. A
/// queue exists while a place is in it. Every operation is O(1).
class KeyedQueues {
  public:
    static constexpr std::uint32_t kNone = PlaceQueues::kNone;

    std::uint32_t oldest(std::uint64_t key) const {
        const std::uint32_t queue = numbers_.find(key);
        return queue == RequestIndex::kNone ? kNone : queues_.oldest(queue);
    }
    std::uint32_t newer(std::uint32_t place) const { return queues_.newer(place); }
    bool contains(std::uint32_t place) const { return queues_.contains(place); }

    void add(std::uint32_t place, std::uint64_t key) {
        std::uint32_t queue = numbers_.find(key);
        if (queue == RequestIndex::kNone) queue = new_queue(key);
        queues_.add(place, queue);
    }

    void remove(std::uint32_t place) {
        const std::uint32_t queue = queues_.queue(place);
        queues_.remove(place);
        if (queues_.oldest(queue) != kNone) return;
        numbers_.erase(keys_[queue]);
        free_.push_back(queue);
    }

  private:
    std::uint32_t new_queue(std::uint64_t key) {
        auto queue = static_cast<std::uint32_t>(keys_.size());
        if (free_.empty()) {
            keys_.push_back(key);
        } else {
            queue = free_.back();
            free_.pop_back();
            keys_[queue] = key;
        }
        numbers_.insert(key, queue);
        return queue;
    }

    PlaceQueues queues_;
    RequestIndex numbers_;             ///< of the queues
    std::vector<std::uint64_t> keys_;  ///< by number
    std::vector<std::uint32_t> free_;  ///< numbers of removed queues
};

}  // namespace innet::reduction
