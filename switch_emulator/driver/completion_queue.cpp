#include "switch_emulator/driver/completion_queue.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace innet::driver {

CompletionQueue::CompletionQueue() : event_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
    if (!event_fd_) {
        throw std::system_error(errno, std::generic_category(),
                                "a completion queue needs a file descriptor");
    }
}

void CompletionQueue::push(OperationCompletion completion) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(completion));
    signal();
}

void CompletionQueue::push_batched(OperationCompletion completion) {
    const std::lock_guard lock(mutex_);
    ended_.push_back(std::move(completion));
}

void CompletionQueue::notify() {
    const std::lock_guard lock(mutex_);
    if (!ended_.empty()) signal();
}

void CompletionQueue::signal() {
    if (std::exchange(notified_, true)) return;  // one `take` returns all completions
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_fd_.get(), &one, sizeof one);
}

std::vector<OperationCompletion> CompletionQueue::take() {
    const std::lock_guard lock(mutex_);
    if (std::exchange(notified_, false)) {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto read = ::read(event_fd_.get(), &count, sizeof count);
    }
    return std::exchange(ended_, {});
}

}  // namespace innet::driver
