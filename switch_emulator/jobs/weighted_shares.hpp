#pragma once
// How much of a bounded table each job uses, and how much of it each is guaranteed.

#include <array>
#include <cstddef>
#include <cstdint>

#include "switch_emulator/jobs/job_table.hpp"

namespace innet::jobs {

/// A share beside those of the jobs and of names of no job. It has no guarantee, so jobs within
/// their guarantees preempt it first.
inline constexpr JobId kUnguaranteedShare = kMaxJobIds;
inline constexpr std::size_t kMaxShares = kMaxJobIds + 1;

/// Counts in units of the table: slots, entries or bytes. Names of no job are a share like others.
/// Every operation but `set_weight` and `furthest_over` is O(1), those are O(kMaxShares).
class WeightedShares {
  public:
    /// `guaranteed` of the table's `capacity` is guaranteed, divided by weight. At first all of it
    /// belongs to kNoJob, which is alone.
    WeightedShares(std::size_t capacity, std::size_t guaranteed);

    /// Another capacity, and as much of it guaranteed as `guaranteed` says. What is used stays,
    /// even above it.
    void set_capacity(std::size_t capacity, std::size_t guaranteed);

    /// A weight of 0 guarantees nothing.
    void set_weight(JobId job, std::uint32_t weight);

    void take(JobId job, std::size_t amount = 1);
    void give(JobId job, std::size_t amount = 1);

    std::size_t capacity() const { return capacity_; }
    std::size_t used() const { return used_; }
    std::size_t used(JobId job) const { return shares_[job].used; }
    std::size_t guaranteed(JobId job) const { return shares_[job].guaranteed; }
    bool is_below_guarantee(JobId job) const { return shares_[job].used < shares_[job].guaranteed; }
    /// How much the job has borrowed.
    std::size_t excess(JobId job) const {
        const Share& share = shares_[job];
        return share.used > share.guaranteed ? share.used - share.guaranteed : 0;
    }

    /// One more unit for `job` leaves the others what they have not used of their guarantees.
    bool has_room_beside_reserves(JobId job) const {
        if (used_ >= capacity_) return false;
        return is_below_guarantee(job) || capacity_ - used_ > reserved_;
    }
    /// The job that has borrowed most. There is one whenever `used()` exceeds what the others'
    /// guarantees leave: kNoneOver without.
    JobId furthest_over() const;
    static constexpr JobId kNoneOver = 0xffff;

  private:
    struct Share {
        std::uint32_t weight = 0;
        std::size_t used = 0;
        std::size_t guaranteed = 0;

        std::size_t unused() const { return used < guaranteed ? guaranteed - used : 0; }
    };

    void divide();

    std::size_t capacity_;
    std::size_t to_guarantee_;
    std::size_t used_ = 0;
    std::size_t reserved_ = 0;  ///< sum of what is guaranteed and not used
    std::array<Share, kMaxShares> shares_{};
};

}  // namespace innet::jobs
