#pragma once
// An object that a node has fetched because others asked it to keep it.

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "transport/object/object_memory.hpp"
#include "transport/wire/name.hpp"

namespace innet {

/// The node serves it from now on; whoever keeps account of the node's objects hears of it later.
class KeptObject {
  public:
    KeptObject(wire::Name name, std::uint64_t depth, std::shared_ptr<ObjectRoom> room)
        : name_(std::move(name)),
          depth_(depth),
          memory_(std::make_shared<ObjectMemory>(std::move(room))) {
        memory_->claim();
    }

    const wire::Name& name() const { return name_; }
    /// Its place among others, as the first who asked said.
    std::uint64_t depth() const { return depth_; }
    const std::shared_ptr<ObjectMemory>& memory() const { return memory_; }

    void add_asker(std::string asker) { askers_.push_back(std::move(asker)); }
    /// The nodes that asked; all are there once the object is offered.
    const std::vector<std::string>& askers() const { return askers_; }

    void set_replaced() { replaced_.store(true); }
    /// Something else is published under its name, or was, and the node does not serve these bytes.
    /// Any thread may ask.
    bool is_replaced() const { return replaced_.load(); }

  private:
    wire::Name name_;
    std::uint64_t depth_;
    std::shared_ptr<ObjectMemory> memory_;
    std::vector<std::string> askers_;
    std::atomic<bool> replaced_ = false;
};

}  // namespace innet
