#include "transport/security/batch_hasher.hpp"

#include <algorithm>

#include "transport/security/gmac_ipsec_mb.hpp"
#include "transport/security/sha256_ipsec_mb.hpp"

namespace innet::security {

namespace {

/// Whether `lanes` hash these faster than fewer lanes would. All lanes run as long as the longest
/// message.
bool are_worth(const Sha256Lanes& lanes, std::span<const HashJob> jobs) {
    std::size_t all = 0;
    std::size_t longest = 0;
    for (const HashJob& job : jobs) {
        all += job.size();
        longest = std::max(longest, job.size());
    }
    if (longest == 0 || longest > kMaxLaneBytes) return false;
    return static_cast<double>(all) >= lanes.worth_from * static_cast<double>(longest);
}

/// Hashes at least the first message; returns how many.
std::size_t digest_first(std::span<HashJob> jobs, Sha256& sha256) {
    for (std::size_t which = 0; which < sha256_lanes().size(); ++which) {
        const Sha256Lanes& lanes = sha256_lanes()[which];
        const auto together = jobs.first(std::min(lanes.count, jobs.size()));
        if (!are_worth(lanes, together)) continue;
        digest_in_lanes(which, together);
        return together.size();
    }
    jobs.front().digest = sha256.digest(jobs.front().parts);
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
        const std::size_t shares = (messages + lanes.count - 1) / lanes.count;
        const std::size_t share = shares == 0 ? 1 : (messages + shares - 1) / shares;
        if (static_cast<double>(share) >= lanes.worth_from) return share;
    }
    return 1;
}

void digest_all(std::span<HashJob> jobs, Sha256& sha256) {
    while (!jobs.empty()) jobs = jobs.subspan(digest_first(jobs, sha256));
}

}  // namespace innet::security
