#include <doctest/doctest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "transport/priority_mutex.hpp"

using namespace innet;
using namespace std::chrono_literals;

namespace {

/// The kernel's priority of a thread (field 18 of /proc/PID/stat): negative while it is real-time.
int kernel_priority(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(file, text);
    std::size_t at = text.rfind(')');
    for (int field = 2; field < 18; ++field) at = text.find(' ', at + 1);
    return std::stoi(text.substr(at + 1));
}

bool make_realtime() {
    const sched_param parameters{.sched_priority = 2};
    return ::pthread_setschedparam(::pthread_self(), SCHED_RR, &parameters) == 0;
}

}  // namespace

TEST_CASE("the holder of a mutex runs at the priority of a network thread that waits for it") {
    PriorityMutex mutex;
    std::unique_lock held(mutex);
    const auto self = static_cast<pid_t>(::syscall(SYS_gettid));
    const int ordinary = kernel_priority(self);

    std::atomic<bool> allowed = true;
    std::atomic<bool> finished = false;
    std::thread urgent([&] {
        allowed = make_realtime();
        const std::lock_guard lock(mutex);
        finished = true;
    });
    int raised = ordinary;
    const auto give_up = std::chrono::steady_clock::now() + 10s;
    while (allowed && raised >= 0 && std::chrono::steady_clock::now() < give_up) {
        raised = kernel_priority(self);
    }
    held.unlock();
    urgent.join();

    CHECK(finished);
    if (!allowed) {
        MESSAGE("real-time priority is not allowed here: only locking was tested");
        return;
    }
    CHECK(ordinary >= 0);
    CHECK(raised < 0);
    CHECK(kernel_priority(self) == ordinary);
}

TEST_CASE("a condition ends a wait when it is notified, and when the time has passed") {
    PriorityMutex mutex;
    PriorityCondition changed;
    bool ready = false;
    std::unique_lock lock(mutex);
    CHECK_FALSE(changed.wait_for(lock, 1ms, [&] { return ready; }));
    CHECK_FALSE(changed.wait_for(lock, -1s, [&] { return ready; }));

    std::thread other([&] {
        const std::lock_guard guard(mutex);
        ready = true;
        changed.notify_all();
    });
    CHECK(changed.wait_for(lock, std::chrono::nanoseconds::max(), [&] { return ready; }));
    changed.wait(lock, [&] { return ready; });
    lock.unlock();
    other.join();
}
