#include "switch_emulator/driver/parallel_hasher.hpp"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <system_error>

namespace innet::driver {
namespace {

/// Waking the helper takes longer than hashing less than this, beside the caller's first share.
constexpr std::size_t kLeastBytes = 32 * 1024;
/// Bits of a ticket for how many shares are taken, and as many for how many there are.
constexpr unsigned kCountBits = 16;
constexpr std::uint64_t kMaxCount = (std::uint64_t{1} << kCountBits) - 1;
/// Looks for a message that is nearly done before the caller sleeps: a segment takes some 30 us.
constexpr int kSpins = 1000;

std::uint64_t taken_of(std::uint64_t ticket) { return ticket & kMaxCount; }
std::uint64_t count_of(std::uint64_t ticket) { return (ticket >> kCountBits) & kMaxCount; }
std::uint64_t next_ticket(std::uint64_t ticket, std::uint64_t count) {
    const std::uint64_t batch = (ticket >> 2 * kCountBits) + 1;
    return (batch << 2 * kCountBits) | (count << kCountBits);
}

std::size_t size_of(std::span<const security::HashJob* const> jobs) {
    std::size_t bytes = 0;
    for (const security::HashJob* job : jobs) bytes += job->size();
    return bytes;
}

/// Leaves the core to its other thread for a moment.
void pause_core() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

/// A thread inherits the real-time priority of the one that starts it. At that priority, hashing
/// would hold a core that network threads of other nodes need.
void run_below_network_threads() {
    int policy = SCHED_OTHER;
    sched_param parameters{};
    if (::pthread_getschedparam(::pthread_self(), &policy, &parameters) != 0) return;
    if (policy != SCHED_RR) return;
    parameters.sched_priority = ::sched_get_priority_min(SCHED_RR);
    ::pthread_setschedparam(::pthread_self(), SCHED_RR, &parameters);
}

}  // namespace

ParallelHasher::~ParallelHasher() {
    if (!helper_.joinable()) return;
    stopping_.store(true);
    ticket_.store(next_ticket(ticket_.load(), 0));
    ticket_.notify_one();
    helper_.join();
}

void ParallelHasher::digest_sorted(std::span<security::HashJob* const> jobs) {
    const std::size_t share = security::best_share(jobs.size());
    const std::size_t shares = (jobs.size() + share - 1) / share;
    const bool is_small = shares < 2 || size_of(jobs.subspan(share)) < kLeastBytes;
    if (is_small || shares > kMaxCount || !has_helper()) {
        return security::digest_all(jobs, sha256_);
    }
    // All of the previous batch was taken: no helper reads these four before the new ticket.
    jobs_.store(jobs.data(), std::memory_order_relaxed);
    size_.store(jobs.size(), std::memory_order_relaxed);
    share_.store(share, std::memory_order_relaxed);
    left_.store(static_cast<std::uint32_t>(shares), std::memory_order_relaxed);
    ticket_.store(next_ticket(ticket_.load(std::memory_order_relaxed), shares),
                  std::memory_order_release);
    ticket_.notify_one();
    while (take_share(sha256_)) {
    }
    wait_for_helper();
}

bool ParallelHasher::take_share(security::Sha256& sha256) {
    Ticket ticket = ticket_.load(std::memory_order_acquire);
    while (true) {
        if (taken_of(ticket) == count_of(ticket)) return false;
        const std::span<security::HashJob* const> jobs(jobs_.load(std::memory_order_relaxed),
                                                       size_.load(std::memory_order_relaxed));
        const std::size_t share = share_.load(std::memory_order_relaxed);
        // They are the ticket's batch if the ticket is still the same.
        if (!ticket_.compare_exchange_weak(ticket, ticket + 1, std::memory_order_acq_rel)) continue;
        const std::span<security::HashJob* const> rest = jobs.subspan(share * taken_of(ticket));
        security::digest_all(rest.first(std::min(share, rest.size())), sha256);
        if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_one();
        return true;
    }
}

void ParallelHasher::wait_for_helper() {
    for (int spins = 0; spins < kSpins; ++spins) {
        if (left_.load(std::memory_order_acquire) == 0) return;
        pause_core();
    }
    for (std::uint32_t left = left_.load(std::memory_order_acquire); left != 0;
         left = left_.load(std::memory_order_acquire)) {
        left_.wait(left, std::memory_order_acquire);
    }
}

bool ParallelHasher::has_helper() {
    if (!tried_to_start_) {
        tried_to_start_ = true;
        if (std::thread::hardware_concurrency() < 2) return false;
        try {
            helper_ = std::thread([this] { help(); });
        } catch (const std::system_error&) {
            return false;  // as many threads as there may be: hashed by one, then
        }
    }
    return helper_.joinable();
}

void ParallelHasher::help() {
    ::pthread_setname_np(::pthread_self(), "innet-hash");
    run_below_network_threads();
    security::Sha256 sha256;
    while (!stopping_.load()) {
        const Ticket seen = ticket_.load(std::memory_order_acquire);
        if (!take_share(sha256)) ticket_.wait(seen, std::memory_order_acquire);
    }
}

}  // namespace innet::driver
