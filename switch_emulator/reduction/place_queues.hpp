#pragma once
// Places of a table in queues, in the order in which they were added.

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace innet::reduction {

/// Numbered queues over one table's places, such as one for each job; a place is in one of them at
/// most. Every operation is O(1), and its memory that of the highest place and queue ever used.
class PlaceQueues {
  public:
    static constexpr std::uint32_t kNone = UINT32_MAX;

    std::uint32_t oldest(std::uint32_t queue) const {
        return queue < ends_.size() ? ends_[queue].oldest : kNone;
    }
    std::uint32_t newest(std::uint32_t queue) const {
        return queue < ends_.size() ? ends_[queue].newest : kNone;
    }
    /// The place that was added to the same queue next; kNone for the newest.
    std::uint32_t newer(std::uint32_t place) const { return links_[place].newer; }
    bool contains(std::uint32_t place) const {
        return place < links_.size() && links_[place].linked;
    }
    /// The queue of a place that is in one.
    std::uint32_t queue(std::uint32_t place) const { return links_[place].queue; }

    void add(std::uint32_t place, std::uint32_t queue) {
        assert(!contains(place));
        if (place >= links_.size()) links_.resize(place + 1);
        if (queue >= ends_.size()) ends_.resize(queue + 1);
        Ends& ends = ends_[queue];
        links_[place] = {ends.newest, kNone, queue, true};
        (ends.newest == kNone ? ends.oldest : links_[ends.newest].newer) = place;
        ends.newest = place;
    }

    void remove(std::uint32_t place) {
        assert(contains(place));
        const Link link = links_[place];
        Ends& ends = ends_[link.queue];
        (link.older == kNone ? ends.oldest : links_[link.older].newer) = link.newer;
        (link.newer == kNone ? ends.newest : links_[link.newer].older) = link.older;
        links_[place].linked = false;
    }

  private:
    struct Link {
        std::uint32_t older = kNone;
        std::uint32_t newer = kNone;
        std::uint32_t queue = 0;
        bool linked = false;
    };
    struct Ends {
        std::uint32_t oldest = kNone;
        std::uint32_t newest = kNone;
    };

    std::vector<Link> links_;
    std::vector<Ends> ends_;
};

}  // namespace innet::reduction
