#pragma once
// An object that the node fetched for a keep request.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/object/object_memory.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// The node serves the object at once; the application learns of it later.
class KeptObject {
  public:
    KeptObject(wire::Name name, std::uint64_t depth, std::shared_ptr<MemoryBudget> budget)
        : name_(std::move(name)),
          depth_(depth),
          memory_(std::make_shared<ObjectMemory>(std::move(budget))) {
        memory_->claim();
    }

    const wire::Name& name() const { return name_; }
    /// Depth of the block in its prompt, from the first request.
    std::uint64_t depth() const { return depth_; }
    const std::shared_ptr<ObjectMemory>& memory() const { return memory_; }

    void add_requester(std::string requester) { requesters_.push_back(std::move(requester)); }
    /// Nodes that requested it; complete once the object is published.
    const std::vector<std::string>& requesters() const { return requesters_; }

    void set_replaced() { replaced_.store(true); }
    /// Something else was published under its name, so the node does not serve these bytes.
    /// Thread-safe.
    bool is_replaced() const { return replaced_.load(); }

  private:
    wire::Name name_;
    std::uint64_t depth_;
    std::shared_ptr<ObjectMemory> memory_;
    std::vector<std::string> requesters_;
    std::atomic<bool> replaced_ = false;
};

}  // namespace innet
