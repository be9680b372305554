#include "switch_emulator/driver/completion_board.hpp"

#include <sys/eventfd.h>

namespace innet::driver {

CompletionBoard::CompletionBoard() : event_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void CompletionBoard::expect(OperationId id, bool for_collector) {
    if (for_collector) {
        const std::lock_guard lock(mutex_);
        collected_ids_.insert(id);
    }
}

void CompletionBoard::post(std::vector<OperationCompletion>& completions) {
    bool wake_collector = false;
    {
        const std::lock_guard lock(mutex_);
        for (OperationCompletion& completion : completions) {
            if (collected_ids_.erase(completion.id) > 0) {
                collected_.push_back(std::move(completion));
                wake_collector = true;
            } else {
                waiting_.insert_or_assign(completion.id, std::move(completion));
            }
        }
    }
    changed_.notify_all();
    if (wake_collector) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(event_fd_.get(), &one, sizeof one);
    }
    completions.clear();
}

std::optional<OperationCompletion> CompletionBoard::wait(OperationId id, Duration timeout) {
    std::unique_lock lock(mutex_);
    const auto ready = [&] { return waiting_.contains(id); };
    if (!changed_.wait_for(lock, timeout, ready)) {
        return std::nullopt;
    }
    auto node = waiting_.extract(id);
    return std::move(node.mapped());
}

bool CompletionBoard::done(OperationId id) const {
    const std::lock_guard lock(mutex_);
    return waiting_.contains(id);
}

std::vector<OperationCompletion> CompletionBoard::collect() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(event_fd_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return std::exchange(collected_, {});
}

}  // namespace innet::driver
