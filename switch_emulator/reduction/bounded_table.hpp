#pragma once
// A bounded number of records, each for one name of a sum, shared by jobs.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "switch_emulator/jobs/weighted_shares.hpp"
#include "switch_emulator/reduction/place_queues.hpp"
#include "switch_emulator/reduction/reduction_name.hpp"
#include "switch_emulator/tables/slab.hpp"
#include "transport/audit.hpp"
#include "transport/fetch/request_index.hpp"

namespace innet::reduction {

/// `Record` is default-constructible; `reset()` makes it empty but keeps its memory for the next
/// use. All places are guaranteed to the jobs, by weight. Memory is allocated for the largest
/// number of records so far only: of thousands of simulated nodes, few use all their places.
template <typename Record>
class BoundedTable {
  public:
    static constexpr std::uint32_t kNone = RequestIndex::kNone;

    explicit BoundedTable(std::size_t capacity)
        : capacity_(capacity), shares_(capacity, capacity) {}

    bool full() const { return size() == capacity_; }
    std::size_t size() const { return entries_.size() - free_.size(); }
    /// The job's record that was added first, and last; kNone when it has none.
    std::uint32_t oldest(jobs::JobId job) const { return in_use_.oldest(job); }
    std::uint32_t newest(jobs::JobId job) const { return in_use_.newest(job); }
    jobs::JobId job(std::uint32_t place) const {
        return static_cast<jobs::JobId>(in_use_.queue(place));
    }
    const jobs::WeightedShares& shares() const { return shares_; }
    void set_weight(jobs::JobId job, std::uint32_t weight) { shares_.set_weight(job, weight); }

    Record& operator[](std::uint32_t place) { return entries_[place]->record; }
    const Record& operator[](std::uint32_t place) const { return entries_[place]->record; }
    const ReductionName& name(std::uint32_t place) const { return entries_[place]->name; }

    /// The record of `name`, or kNone.
    std::uint32_t find(const ReductionName& name) const { return find(name.hash(), name.whole()); }
    std::uint32_t find(wire::NameHash hash, wire::NameView name) const {
        const std::uint32_t place = index_.find(hash);
        return place != kNone && entries_[place]->name.whole() == name ? place : kNone;
    }

    /// Adds a record of `job` for `name`, which has none; kNone when the table is full or another
    /// name has the hash.
    std::uint32_t add(const ReductionName& name, jobs::JobId job) {
        if (full() || index_.find(name.hash()) != kNone) return kNone;
        if (free_.empty()) grow();
        const std::uint32_t place = free_.back();
        free_.pop_back();
        Entry& entry = *entries_[place];
        const wire::ByteView bytes = name.whole().value();
        entry.bytes.assign(bytes.begin(), bytes.end());
        entry.name = name.moved_to(entry.bytes);
        index_.insert(name.hash(), place);
        in_use_.add(place, job);
        shares_.take(job);
        return place;
    }

    void remove(std::uint32_t place) {
        index_.erase(entries_[place]->name.hash());
        shares_.give(job(place));
        in_use_.remove(place);
        entries_[place]->record.reset();
        free_.push_back(place);
    }

    template <typename Visit>
    void for_each_place(Visit visit) const {
        for (jobs::JobId job = 0; job < jobs::kMaxJobIds; ++job) {
            for (std::uint32_t place = oldest(job); place != kNone; place = in_use_.newer(place)) {
                visit(place);
            }
        }
    }
    /// Checks the counts against the records; `what` names the records in the report.
    void audit(AuditReport& report, std::string_view what) const {
        std::array<std::size_t, jobs::kMaxJobIds> of_job{};
        for_each_place([&](std::uint32_t place) { ++of_job[job(place)]; });
        std::size_t all = 0;
        for (jobs::JobId job = 0; job < of_job.size(); ++job) {
            report.expect_equal(shares_.used(job), of_job[job], what);
            all += of_job[job];
        }
        report.expect_equal(size(), all, what);
        report.expect_equal(index_.size(), all, what);
        report.expect_at_most(all, capacity_, what);
    }

    /// Places of the records that satisfy `predicate(record)`.
    template <typename Predicate>
    std::vector<std::uint32_t> select(Predicate predicate) const {
        std::vector<std::uint32_t> places;
        for (std::uint32_t place = 0; place < entries_.size(); ++place) {
            if (in_use_.contains(place) && predicate(entries_[place]->record))
                places.push_back(place);
        }
        return places;
    }

  private:
    struct Entry {
        std::vector<std::uint8_t> bytes;  ///< of the name
        ReductionName name;
        Record record;
    };

    void grow() {
        const auto place = static_cast<std::uint32_t>(entries_.size());
        entries_.push_back(&slab_.take());
        free_.reserve(entries_.capacity());  // so that `remove` never allocates
        free_.push_back(place);
    }

    std::size_t capacity_;
    tables::Slab<Entry> slab_;
    std::vector<Entry*> entries_;  ///< by place
    std::vector<std::uint32_t> free_;
    PlaceQueues in_use_;
    jobs::WeightedShares shares_;
    RequestIndex index_;
};

}  // namespace innet::reduction
