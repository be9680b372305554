#pragma once
// Where the node's thread leaves finished operations and other threads wait for them.

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "switch_emulator/driver/completion_queue.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/priority_mutex.hpp"

namespace innet::driver {

/// Thread-safe. For each operation, one thread waits (`wait`), hands it to a queue, or discards it
/// (`discard`), before or after it has ended.
class CompletionBoard {
  public:
    /// `queue` gets the operation's end, not `wait`; if the queue is gone then, it is discarded.
    void hand_over(OperationId id, const std::shared_ptr<CompletionQueue>& queue);
    /// Hands it over, but does not wake the queue's reader: the next completion does.
    void hand_over_batched(OperationId id, const std::shared_ptr<CompletionQueue>& queue);
    /// Wakes the reader of `queue` for `id`, which `hand_over_batched` put there.
    void flush(OperationId id, CompletionQueue& queue);
    /// Drops the completion of `id`, which has not been taken yet.
    void discard(OperationId id);
    /// The discarded operations that have ended since the last call.
    std::vector<OperationId> take_discarded();
    /// From the node's thread.
    void post(std::vector<OperationCompletion>& completions);
    /// The completion of `id`, or nothing when `timeout` passed first. Taken once.
    std::optional<OperationCompletion> wait(OperationId id, Duration timeout);
    bool done(OperationId id) const;

    /// From now on the times of whatever ends are kept for `take_times`.
    void keep_times();
    /// Those of the operations that ended since the last call, the latest `kMaxTimes` of them.
    std::vector<std::pair<OperationId, OperationTimes>> take_times();

    static constexpr std::size_t kMaxTimes = 65536;

  private:
    struct Receiver {
        std::weak_ptr<CompletionQueue> queue;
        bool batched = false;
    };

    void hand_over(OperationId id, const std::shared_ptr<CompletionQueue>& queue, bool batched);

    mutable PriorityMutex mutex_;
    PriorityCondition changed_;
    std::unordered_map<OperationId, OperationCompletion> waiting_;
    std::unordered_map<OperationId, Receiver> handed_over_;
    std::unordered_set<OperationId> discarded_ids_;
    std::vector<OperationId> discarded_;
    bool keeps_times_ = false;
    std::deque<std::pair<OperationId, OperationTimes>> times_;
};

}  // namespace innet::driver
