#pragma once
// Delivers finished operations to one thread, which waits for a descriptor.

#include <vector>

#include "switch_emulator/driver/file_descriptor.hpp"
#include "transport/endpoint/operation.hpp"
#include "transport/priority_mutex.hpp"

namespace innet::driver {

/// Thread-safe.
class CompletionQueue {
  public:
    /// Throws std::system_error when the process has no descriptor left.
    CompletionQueue();

    void push(OperationCompletion completion);
    /// Pushes without a signal: the reader takes it with a later completion.
    void push_batched(OperationCompletion completion);
    /// Signals completions that were pushed without a signal.
    void notify();
    /// Everything since the last call.
    std::vector<OperationCompletion> take();
    /// Readable when `take` has signalled completions; `take` makes it unreadable.
    int event_fd() const { return event_fd_.get(); }

  private:
    void signal();

    PriorityMutex mutex_;
    std::vector<OperationCompletion> ended_;
    bool notified_ = false;
    FileDescriptor event_fd_;
};

}  // namespace innet::driver
