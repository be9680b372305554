#include "transport/security/batch_hasher.hpp"

#include <algorithm>

#include "transport/security/gmac_ipsec_mb.hpp"
#include "transport/security/sha256_ipsec_mb.hpp"

namespace innet::security {

namespace {

struct Sizes {
    std::size_t all = 0;
    std::size_t longest = 0;
};

Sizes sizes_of(std::span<const HashJob* const> jobs) {
    Sizes sizes;
    for (const HashJob* job : jobs) {
        sizes.all += job->size();
        sizes.longest = std::max(sizes.longest, job->size());
    }
    return sizes;
}

/// Whether `lanes` hash these faster than fewer lanes would.
bool are_worth(const Sha256Lanes& lanes, std::span<const HashJob* const> jobs) {
    const auto [all, longest] = sizes_of(jobs);
    if (longest == 0 || longest > kMaxLaneBytes) return false;
    return static_cast<double>(all) >= lanes.worth_from * static_cast<double>(longest);
}

/// Hashes at least the first message; returns how many.
std::size_t digest_first(std::span<HashJob* const> jobs, Sha256& sha256) {
    for (std::size_t which = 0; which < sha256_lanes().size(); ++which) {
        const Sha256Lanes& lanes = sha256_lanes()[which];
        const auto together = jobs.first(std::min(lanes.count, jobs.size()));
        if (!are_worth(lanes, together)) continue;
        digest_in_lanes(which, together);
        return together.size();
    }
    jobs.front()->digest = sha256.digest(jobs.front()->parts);
    return 1;
}

}  // namespace

std::string sha256_libraries() {
    std::string counts;
    for (const Sha256Lanes& lanes : sha256_lanes()) {
        counts += (counts.empty() ? "" : " or ") + std::to_string(lanes.count);
    }
    return counts.empty() ? "OpenSSL" : ipsec_mb_name() + ", " + counts + " at once; else OpenSSL";
}

std::size_t best_batch() { return sha256_lanes().empty() ? 1 : sha256_lanes().front().count; }

std::size_t best_share(std::size_t messages) {
    for (const Sha256Lanes& lanes : sha256_lanes()) {
        if (static_cast<double>(messages) >= lanes.worth_from) return lanes.count;
    }
    return 1;
}

bool lanes_are_full(std::span<const HashJob* const> jobs) {
    const auto [all, longest] = sizes_of(jobs);
    return all >= best_batch() * longest;
}

void digest_all(std::span<HashJob* const> jobs, Sha256& sha256) {
    while (!jobs.empty()) jobs = jobs.subspan(digest_first(jobs, sha256));
}

void BatchHasher::digest(std::span<HashJob> jobs) {
    sorted_.clear();
    for (HashJob& job : jobs) sorted_.push_back(&job);
    digest_sorting();
}

void BatchHasher::digest(std::span<HashJob* const> jobs) {
    sorted_.assign(jobs.begin(), jobs.end());
    digest_sorting();
}

void BatchHasher::digest_sorting() {
    std::ranges::stable_sort(sorted_, std::ranges::greater(), &HashJob::size);
    digest_sorted(sorted_);
}

}  // namespace innet::security
