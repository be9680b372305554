#pragma once
// Flows by key. Flows in use stay; of the others, the most recently used are kept for their path
// estimates, so that departed peers and groups use no memory.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "transport/deadline_heap.hpp"
#include "transport/time.hpp"

namespace innet {

/// A node can have a thousand flows, of which one has changed since the last event: deadlines, by
/// `Flow::next_deadline()`, are read only from flows that were accessed since.
template <typename Flow>
class FlowTable {
  public:
    using Place = std::uint32_t;
    static constexpr Place kNone = 0xffff'ffff;
    static constexpr std::size_t kKept = 256;

    /// The table exceeds this size only while all flows are in use.
    explicit FlowTable(std::size_t kept = kKept) : kept_(kept) {}

    /// The reference can be changed until the next call for deadlines.
    Flow& operator[](Place place) {
        touch(place);
        return flows_[place];
    }
    const Flow& operator[](Place place) const { return flows_[place]; }
    std::size_t size() const { return flows_.size(); }

    /// The flow of `hash` of which `matches(flow)` is true, or kNone.
    template <typename Predicate>
    Place find(std::uint64_t hash, Predicate matches) const {
        const auto [first, last] = by_hash_.equal_range(hash);
        const auto found = std::find_if(
            first, last, [&](const auto& entry) { return matches(flows_[entry.second]); });
        return found == last ? kNone : found->second;
    }

    /// Adds an unused flow; in a full table it replaces the flow that was idle longest.
    Place add(std::uint64_t hash, Flow flow) {
        Place place = flows_.size() < kept_ ? kNone : longest_idle();
        if (place == kNone) {
            place = static_cast<Place>(flows_.size());
            flows_.push_back(std::move(flow));
            usage_.emplace_back();
            deadlines_.add();
        } else {
            forget(place);
            flows_[place] = std::move(flow);
        }
        usage_[place] = {hash, 0, ++clock_, usage_[place].touched};
        by_hash_.emplace(hash, place);
        return place;
    }

    bool in_use(Place place) const { return usage_[place].users > 0; }
    /// Calls `visit(place)` for each flow in use; it may add flows, use and leave them.
    template <typename Visit>
    void for_each_in_use(Visit visit) const {
        for (Place place = 0; place < flows_.size(); ++place) {
            if (in_use(place)) visit(place);
        }
    }
    void use(Place place) {
        touch(place);
        ++usage_[place].users;
    }
    /// Once for every `use`.
    void leave(Place place) {
        touch(place);
        Usage& usage = usage_[place];
        --usage.users;
        usage.left = ++clock_;
    }

    /// The earliest deadline of flows in use.
    TimePoint next_deadline() const {
        look_at_touched();
        return deadlines_.earliest();
    }
    /// Calls `visit(place)` for each flow in use whose deadline is due.
    template <typename Visit>
    void for_each_due(TimePoint now, Visit visit) const {
        if (next_deadline() > now) return;
        for (Place place = 0; place < flows_.size(); ++place) {
            if (deadlines_.deadline(place) <= now) visit(place);
        }
    }

  private:
    struct Usage {
        std::uint64_t hash = 0;
        std::uint32_t users = 0;
        std::uint64_t left = 0;  ///< when, in events of this table
        bool touched = false;    ///< is in `touched_`
    };

    void touch(Place place) {
        if (std::exchange(usage_[place].touched, true)) return;
        touched_.push_back(place);
    }
    void look_at_touched() const {
        for (const Place place : touched_) {
            usage_[place].touched = false;
            deadlines_.set(place, in_use(place) ? flows_[place].next_deadline() : kNever);
        }
        touched_.clear();
    }

    Place longest_idle() const {
        Place longest = kNone;
        for (Place place = 0; place < usage_.size(); ++place) {
            if (in_use(place)) continue;
            if (longest == kNone || usage_[place].left < usage_[longest].left) longest = place;
        }
        return longest;
    }

    void forget(Place place) {
        auto entry = by_hash_.equal_range(usage_[place].hash).first;
        while (entry->second != place) ++entry;
        by_hash_.erase(entry);
    }

    std::size_t kept_;
    std::vector<Flow> flows_;
    mutable std::vector<Usage> usage_;
    mutable std::vector<Place> touched_;
    mutable DeadlineHeap deadlines_;  ///< but for those of `touched_`
    std::unordered_multimap<std::uint64_t, Place> by_hash_;
    std::uint64_t clock_ = 0;
};

}  // namespace innet
