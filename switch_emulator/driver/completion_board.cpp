#include "switch_emulator/driver/completion_board.hpp"

#include <sys/eventfd.h>

namespace innet::driver {

CompletionBoard::CompletionBoard() : event_fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void CompletionBoard::hand_to_collector(OperationId id) {
    const std::lock_guard lock(mutex_);
    if (auto ended = waiting_.extract(id)) {
        collected_.push_back(std::move(ended.mapped()));
        wake_collector();
    } else {
        collected_ids_.insert(id);
    }
}

void CompletionBoard::discard(OperationId id) {
    const std::lock_guard lock(mutex_);
    if (waiting_.erase(id) > 0) {
        discarded_.push_back(id);
    } else {
        discarded_ids_.insert(id);
    }
}

std::vector<OperationId> CompletionBoard::take_discarded() {
    const std::lock_guard lock(mutex_);
    return std::exchange(discarded_, {});
}

void CompletionBoard::wake_collector() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(event_fd_.get(), &one, sizeof one);
}

void CompletionBoard::post(std::vector<OperationCompletion>& completions) {
    {
        const std::lock_guard lock(mutex_);
        for (OperationCompletion& completion : completions) {
            if (keeps_times_) {
                if (times_.size() == kMaxTimes) times_.pop_front();
                times_.emplace_back(completion.id, completion.times);
            }
            if (collected_ids_.erase(completion.id) > 0) {
                collected_.push_back(std::move(completion));
                wake_collector();
            } else if (discarded_ids_.erase(completion.id) > 0) {
                discarded_.push_back(completion.id);
            } else {
                waiting_.insert_or_assign(completion.id, std::move(completion));
            }
        }
    }
    changed_.notify_all();
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

void CompletionBoard::keep_times() {
    const std::lock_guard lock(mutex_);
    keeps_times_ = true;
}

std::vector<std::pair<OperationId, OperationTimes>> CompletionBoard::take_times() {
    const std::lock_guard lock(mutex_);
    const auto taken = std::exchange(times_, {});
    return {taken.begin(), taken.end()};
}

}  // namespace innet::driver
