#pragma once
// A mutex whose holder runs at the priority of the most urgent thread that waits for it.

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <mutex>

namespace innet {

/// Locks as std::mutex does, with the protocol PTHREAD_PRIO_INHERIT
/// (pthread_mutexattr_setprotocol(3)): a network thread of real-time priority does not wait for an
/// ordinary thread that holds the mutex and gets no core. Where the system has no such protocol it
/// is a plain mutex.
class PriorityMutex {
  public:
    PriorityMutex() noexcept {
        pthread_mutexattr_t attributes;
        ::pthread_mutexattr_init(&attributes);
        ::pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
        if (::pthread_mutex_init(&mutex_, &attributes) != 0) ::pthread_mutex_init(&mutex_, nullptr);
        ::pthread_mutexattr_destroy(&attributes);
    }
    ~PriorityMutex() { ::pthread_mutex_destroy(&mutex_); }
    PriorityMutex(const PriorityMutex&) = delete;
    PriorityMutex& operator=(const PriorityMutex&) = delete;

    void lock() noexcept { ::pthread_mutex_lock(&mutex_); }
    void unlock() noexcept { ::pthread_mutex_unlock(&mutex_); }
    bool try_lock() noexcept { return ::pthread_mutex_trylock(&mutex_) == 0; }
    pthread_mutex_t* native_handle() noexcept { return &mutex_; }

  private:
    pthread_mutex_t mutex_;
};

/// A condition variable for `PriorityMutex`. std::condition_variable_any would lock a plain mutex
/// of its own.
class PriorityCondition {
  public:
    PriorityCondition() noexcept {
        pthread_condattr_t attributes;
        ::pthread_condattr_init(&attributes);
        ::pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        ::pthread_cond_init(&condition_, &attributes);
        ::pthread_condattr_destroy(&attributes);
    }
    ~PriorityCondition() { ::pthread_cond_destroy(&condition_); }
    PriorityCondition(const PriorityCondition&) = delete;
    PriorityCondition& operator=(const PriorityCondition&) = delete;

    void notify_one() noexcept { ::pthread_cond_signal(&condition_); }
    void notify_all() noexcept { ::pthread_cond_broadcast(&condition_); }

    template <typename Predicate>
    void wait(std::unique_lock<PriorityMutex>& lock, Predicate ready) {
        while (!ready()) ::pthread_cond_wait(&condition_, lock.mutex()->native_handle());
    }

    /// False when `timeout` passed and the condition does not hold.
    template <typename Predicate>
    bool wait_for(std::unique_lock<PriorityMutex>& lock, std::chrono::nanoseconds timeout,
                  Predicate ready) {
        using std::chrono::steady_clock;
        // A sum beyond the clock's range would lie in the past.
        const auto longest = steady_clock::time_point::max() - steady_clock::now();
        const auto until =
            (steady_clock::now() + std::min(timeout, longest / 2)).time_since_epoch();
        const auto seconds = std::chrono::floor<std::chrono::seconds>(until);
        const timespec deadline{.tv_sec = static_cast<time_t>(seconds.count()),
                                .tv_nsec = static_cast<long>((until - seconds).count())};
        while (!ready()) {
            if (::pthread_cond_timedwait(&condition_, lock.mutex()->native_handle(), &deadline) !=
                0) {
                return ready();
            }
        }
        return true;
    }

  private:
    pthread_cond_t condition_;
};

}  // namespace innet
