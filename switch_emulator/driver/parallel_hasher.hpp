#pragma once
// Hashes the messages of a batch on two threads: the caller's, and one that sleeps between batches.

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>

#include "transport/security/batch_hasher.hpp"

namespace innet::driver {

/// The two take shares of the messages, each as large as one thread hashes at once, so that a
/// helper that is slow to wake, or has no core, delays nothing: the caller has done more of them
/// then.
class ParallelHasher final : public security::BatchHasher {
  public:
    ParallelHasher() = default;
    ~ParallelHasher() override;
    ParallelHasher(const ParallelHasher&) = delete;
    ParallelHasher& operator=(const ParallelHasher&) = delete;

  private:
    /// The batch, its number of shares, and how many of them are taken, in one number: a late
    /// helper cannot take a share of another batch than the one that it read.
    using Ticket = std::uint64_t;

    /// Called by one thread at a time.
    void digest_sorted(std::span<security::HashJob* const> jobs) override;
    bool has_helper();
    void help();
    /// Hashes a share that no thread has taken; false when all are taken.
    bool take_share(security::Sha256& sha256);
    void wait_for_helper();

    std::atomic<Ticket> ticket_{0};
    std::atomic<security::HashJob* const*> jobs_{nullptr};
    std::atomic<std::size_t> size_{0};    ///< of them
    std::atomic<std::size_t> share_{1};   ///< messages of a share
    std::atomic<std::uint32_t> left_{0};  ///< shares without digests
    std::atomic<bool> stopping_{false};
    bool tried_to_start_ = false;
    security::Sha256 sha256_;
    std::thread helper_;
};

}  // namespace innet::driver
