#pragma once
// SHA-256 of several messages at once: they share the CPU's registers where ipsec-mb has lanes for
// it, and an implementation may use further cores.

#include <span>
#include <string>

#include "transport/security/hash_job.hpp"
#include "transport/security/sha256.hpp"

namespace innet::security {

/// The libraries that hash here, and how many messages at once.
std::string sha256_libraries();

/// How many messages of one size one thread hashes at once for the least processor time each.
std::size_t best_batch();

/// How many of `messages` a thread takes at once when several threads share them.
std::size_t best_share(std::size_t messages);

/// Fills in the digests of all, in this thread: by lanes that they fill, else by `sha256`.
void digest_all(std::span<HashJob> jobs, Sha256& sha256);

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
