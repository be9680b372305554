#include "switch_emulator/jobs/job_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace innet::jobs {

const Job& JobTable::install(const wire::Name& prefix, std::uint32_t weight) {
    const std::size_t components = prefix.view().size();
    if (components == 0 || components > kMaxPrefixComponents) {
        throw std::invalid_argument(
            "a job's prefix must be one component such as /j1, or two such as /kv/7f3a, not " +
            prefix.view().to_uri());
    }
    if (weight == 0 || weight > kMaxWeight) {
        throw std::invalid_argument("a job's weight must be from 1 to " +
                                    std::to_string(kMaxWeight));
    }
    const auto known = std::ranges::find(jobs_, prefix, &Job::prefix);
    if (known != jobs_.end()) {
        known->weight = weight;
        return *known;
    }
    if (jobs_.size() == kMaxJobs) {
        throw std::invalid_argument("this node serves " + std::to_string(kMaxJobs) +
                                    " jobs already; wait until one ends");
    }
    const JobId id = free_id();
    hashes_.push_back(prefix.view().hash());
    jobs_.push_back({id, prefix, weight});
    if (components == 2) ++prefixes_of_two_;
    return jobs_.back();
}

void JobTable::remove(JobId job) {
    const auto known = std::ranges::find(jobs_, job, &Job::id);
    if (known == jobs_.end()) return;
    if (known->prefix.view().size() == 2) --prefixes_of_two_;
    hashes_.erase(hashes_.begin() + (known - jobs_.begin()));
    jobs_.erase(known);
}

JobId JobTable::of(wire::NameView name) const {
    if (jobs_.empty() || name.empty()) return kNoJob;
    const wire::NameView first = name.prefix(1);
    const JobId job = of(first.hash(), first);
    if (job != kNoJob || !has_prefixes_of_two()) return job;
    const wire::NameView first_two = name.prefix(2);
    return of(first_two.hash(), first_two);
}

JobId JobTable::of(wire::NameHash hash, wire::NameView prefix) const {
    for (std::size_t i = 0; i < hashes_.size(); ++i) {
        if (hashes_[i] == hash && jobs_[i].prefix.view() == prefix) return jobs_[i].id;
    }
    return kNoJob;
}

const Job* JobTable::find(const wire::Name& prefix) const {
    const auto known = std::ranges::find(jobs_, prefix, &Job::prefix);
    return known == jobs_.end() ? nullptr : &*known;
}

JobId JobTable::free_id() const {
    JobId id = 1;
    while (std::ranges::find(jobs_, id, &Job::id) != jobs_.end()) ++id;
    return id;
}

}  // namespace innet::jobs
