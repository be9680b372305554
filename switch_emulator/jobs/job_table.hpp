#pragma once
// The jobs that share a node: whose a name is, by its first component or its first two.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "transport/wire/name.hpp"

namespace innet::jobs {

/// A job's place in a node's tables, from 1; it is given again after the job's end.
using JobId = std::uint16_t;

/// Whose names belong to no job that the node knows.
inline constexpr JobId kNoJob = 0;
inline constexpr std::size_t kMaxJobs = 64;
inline constexpr std::size_t kMaxJobIds = kMaxJobs + 1;
inline constexpr std::uint32_t kMaxWeight = 1000;
inline constexpr std::size_t kMaxPrefixComponents = 2;

struct Job {
    JobId id = kNoJob;
    wire::Name prefix;  ///< one component or two: `/j1`, `/kv/7f3a`
    std::uint32_t weight = 1;
};

class JobTable {
  public:
    /// Adds a job, or gives the one of that prefix another weight. Throws std::invalid_argument
    /// when the prefix is not one component or two, the weight is not within 1 and kMaxWeight, or
    /// there are kMaxJobs already.
    const Job& install(const wire::Name& prefix, std::uint32_t weight);
    void remove(JobId job);

    /// The job that the name belongs to; kNoJob when the table has none. Where both a name's first
    /// component and its first two are jobs', the shorter counts.
    JobId of(wire::NameView name) const;
    /// The job of just this prefix, whose hash is known already.
    JobId of(wire::NameHash hash, wire::NameView prefix) const;
    /// Whether names have to be looked up by their first two components, too.
    bool has_prefixes_of_two() const { return prefixes_of_two_ > 0; }
    /// Null when there is no such job.
    const Job* find(const wire::Name& prefix) const;

    const std::vector<Job>& all() const { return jobs_; }
    bool empty() const { return jobs_.empty(); }

  private:
    JobId free_id() const;

    std::vector<wire::NameHash> hashes_;  ///< of `jobs_`, beside each other for the look-up
    std::vector<Job> jobs_;
    std::size_t prefixes_of_two_ = 0;
};

}  // namespace innet::jobs
