#include "switch_emulator/driver/completion_board.hpp"

namespace innet::driver {

namespace {

void push(CompletionQueue& queue, OperationCompletion completion, bool batched) {
    batched ? queue.push_batched(std::move(completion)) : queue.push(std::move(completion));
}

}  // namespace

void CompletionBoard::hand_over(OperationId id, const std::shared_ptr<CompletionQueue>& queue) {
    hand_over(id, queue, false);
}

void CompletionBoard::hand_over_batched(OperationId id,
                                        const std::shared_ptr<CompletionQueue>& queue) {
    hand_over(id, queue, true);
}

void CompletionBoard::hand_over(OperationId id, const std::shared_ptr<CompletionQueue>& queue,
                                bool batched) {
    const std::lock_guard lock(mutex_);
    if (auto ended = waiting_.extract(id)) {
        push(*queue, std::move(ended.mapped()), batched);
    } else {
        handed_over_.insert_or_assign(id, Receiver{queue, batched});
    }
}

void CompletionBoard::flush(OperationId id, CompletionQueue& queue) {
    const std::lock_guard lock(mutex_);
    const auto found = handed_over_.find(id);
    if (found == handed_over_.end()) return queue.notify();
    found->second.batched = false;
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

void CompletionBoard::post(std::vector<OperationCompletion>& completions) {
    {
        const std::lock_guard lock(mutex_);
        for (OperationCompletion& completion : completions) {
            if (keeps_times_) {
                if (times_.size() == kMaxTimes) times_.pop_front();
                times_.emplace_back(completion.id, completion.times);
            }
            if (const auto handed_over = handed_over_.extract(completion.id)) {
                const Receiver& receiver = handed_over.mapped();
                if (const auto queue = receiver.queue.lock()) {
                    push(*queue, std::move(completion), receiver.batched);
                } else {
                    discarded_.push_back(completion.id);
                }
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
