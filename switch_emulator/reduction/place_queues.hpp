#pragma once
// Places of a table in the order in which they were added, for each job.

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "switch_emulator/jobs/job_table.hpp"

namespace innet::reduction {

/// A queue for each job over one table's places; a place is in one of them at most. Every operation
/// is O(1), and its memory that of the highest place ever added.
class PlaceQueues {
  public:
    static constexpr std::uint32_t kNone = UINT32_MAX;

    std::uint32_t oldest(jobs::JobId queue) const { return ends_[queue].oldest; }
    std::uint32_t newest(jobs::JobId queue) const { return ends_[queue].newest; }
    /// The place that was added to the same queue next; kNone for the newest.
    std::uint32_t newer(std::uint32_t place) const { return links_[place].newer; }
    bool contains(std::uint32_t place) const {
        return place < links_.size() && links_[place].linked;
    }
    /// Of a place that is in one.
    jobs::JobId queue(std::uint32_t place) const { return links_[place].queue; }

    void add(std::uint32_t place, jobs::JobId queue) {
        assert(!contains(place));
        if (place >= links_.size()) links_.resize(place + 1);
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
        jobs::JobId queue = jobs::kNoJob;
        bool linked = false;
    };
    struct Ends {
        std::uint32_t oldest = kNone;
        std::uint32_t newest = kNone;
    };

    std::vector<Link> links_;
    std::array<Ends, jobs::kMaxJobIds> ends_{};
};

}  // namespace innet::reduction
