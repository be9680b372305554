#pragma once
// Finished operations on their way to one thread, which waits for a descriptor.

#include <mutex>
#include <vector>

#include "switch_emulator/driver/file_descriptor.hpp"
#include "transport/endpoint/operation.hpp"

namespace innet::driver {

/// Thread-safe.
class CompletionQueue {
  public:
    /// Throws std::system_error when the process has no descriptor left.
    CompletionQueue();

    void push(OperationCompletion completion);
    /// The same, but tells nobody: it is taken with what comes after it.
    void push_quietly(OperationCompletion completion);
    /// Tells of what was pushed quietly.
    void tell();
    /// Everything since the last call.
    std::vector<OperationCompletion> take();
    /// Readable when `take` has something that is to be told; becomes unreadable by `take`.
    int event_fd() const { return event_fd_.get(); }

  private:
    void signal();

    std::mutex mutex_;
    std::vector<OperationCompletion> ended_;
    bool told_ = false;
    FileDescriptor event_fd_;
};

}  // namespace innet::driver
