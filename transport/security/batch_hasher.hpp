#pragma once
// SHA-256 of several messages at once: two messages interleave on one core, and an implementation
// may use further cores.

#include <array>
#include <span>

#include "transport/security/sha256.hpp"
#include "transport/security/sha256_pair.hpp"
#include "transport/wire/tlv.hpp"

namespace innet::security {

/// A message, in up to three parts one after the other, and its digest once that is known.
struct HashJob {
    std::array<wire::ByteView, 3> parts;
    Sha256Digest digest{};
};

/// Fills in the digests of all, in this thread.
inline void digest_all(std::span<HashJob> jobs, Sha256& sha256) {
    while (jobs.size() >= 2 && can_digest_pairs()) {
        const auto digests = digest_pair(jobs[0].parts, jobs[1].parts);
        jobs[0].digest = digests[0];
        jobs[1].digest = digests[1];
        jobs = jobs.subspan(2);
    }
    for (HashJob& job : jobs) job.digest = sha256.digest(job.parts);
}

class BatchHasher {
  public:
    virtual ~BatchHasher() = default;
    /// Fills in the digests of all. The messages may change when it has returned.
    virtual void digest(std::span<HashJob> jobs) = 0;
};

/// Where it is called, on no other thread.
class SerialHasher final : public BatchHasher {
  public:
    void digest(std::span<HashJob> jobs) override { digest_all(jobs, sha256_); }

  private:
    Sha256 sha256_;
};

}  // namespace innet::security
