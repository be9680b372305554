#pragma once
// SHA-256 of several messages at once: they share the CPU's registers where ipsec-mb has lanes for
// it, and an implementation may use further cores.

#include <span>
#include <string>
#include <vector>

#include "transport/security/hash_job.hpp"
#include "transport/security/sha256.hpp"

namespace innet::security {

/// The libraries that hash here, and how many messages at once.
std::string sha256_libraries();

/// How many messages of one size one thread hashes at once for the least processor time each.
std::size_t best_batch();

/// Whether these messages fill all lanes, so that hashing more with them saves nothing.
bool lanes_are_full(std::span<const HashJob* const> jobs);

/// How many of `messages` a thread takes at once when several threads share them.
std::size_t best_share(std::size_t messages);

/// Fills in the digests of all, in this thread: by lanes that they fill, else by `sha256`. Messages
/// of similar size are neighbours: lanes run as long as the longest message in them.
void digest_all(std::span<HashJob* const> jobs, Sha256& sha256);

class BatchHasher {
  public:
    virtual ~BatchHasher() = default;
    /// Fills in the digests of all. The messages may change when it has returned.
    void digest(std::span<HashJob> jobs);
    void digest(std::span<HashJob* const> jobs);

  protected:
    /// The longest first.
    virtual void digest_sorted(std::span<HashJob* const> jobs) = 0;

  private:
    void digest_sorting();

    std::vector<HashJob*> sorted_;  ///< during a call; kept for its capacity
};

/// Where it is called, on no other thread.
class SerialHasher final : public BatchHasher {
  private:
    void digest_sorted(std::span<HashJob* const> jobs) override { digest_all(jobs, sha256_); }

    Sha256 sha256_;
};

}  // namespace innet::security
