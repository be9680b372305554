#include "switch_emulator/jobs/weighted_shares.hpp"

#include <cassert>

namespace innet::jobs {

WeightedShares::WeightedShares(std::size_t capacity, std::size_t guaranteed)
    : capacity_(capacity), to_guarantee_(guaranteed) {
    set_weight(kNoJob, 1);
}

void WeightedShares::set_weight(JobId job, std::uint32_t weight) {
    if (shares_[job].weight == weight) return;
    shares_[job].weight = weight;
    divide();
}

void WeightedShares::set_capacity(std::size_t capacity, std::size_t guaranteed) {
    capacity_ = capacity;
    to_guarantee_ = guaranteed;
    divide();
}

void WeightedShares::divide() {
    std::uint64_t weights = 0;
    for (const Share& share : shares_) weights += share.weight;
    reserved_ = 0;
    for (Share& share : shares_) {
        share.guaranteed = weights == 0 ? 0 : to_guarantee_ * share.weight / weights;
        reserved_ += share.unused();
    }
}

void WeightedShares::take(JobId job, std::size_t amount) {
    Share& share = shares_[job];
    reserved_ -= share.unused();
    share.used += amount;
    reserved_ += share.unused();
    used_ += amount;
}

void WeightedShares::give(JobId job, std::size_t amount) {
    Share& share = shares_[job];
    assert(share.used >= amount);
    reserved_ -= share.unused();
    share.used -= amount;
    reserved_ += share.unused();
    used_ -= amount;
}

JobId WeightedShares::furthest_over() const {
    JobId furthest = kNoneOver;
    std::size_t most = 0;
    for (JobId job = 0; job < shares_.size(); ++job) {
        if (excess(job) > most) {
            most = excess(job);
            furthest = job;
        }
    }
    return furthest;
}

}  // namespace innet::jobs
