#pragma once
// Python's interface of a node that a thread of its own or a simulation drives.

#include <nanobind/nanobind.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "innet/_native/lent_owners.hpp"
#include "innet/_native/node_status.hpp"
#include "innet/_native/operations.hpp"
#include "innet/_native/signing.hpp"
#include "switch_emulator/driver/node_stack.hpp"

namespace innet::bindings {

/// Keeps the Python owners of buffers alive while the packet path uses their memory.
class NodeHandle {
  public:
    virtual ~NodeHandle() = default;

    /// Runs `function` where the node runs and waits for it; throws when the node does not run.
    virtual void call(const std::function<void(driver::Engine&)>& function) = 0;
    /// Runs `function` there without waiting. False when the node does not run.
    virtual bool post(std::function<void(driver::Engine&)> function) = 0;
    /// Posts without a wake-up: runs with the node's next event.
    virtual bool post_deferred(std::function<void(driver::Engine&)> function) {
        return post(std::move(function));
    }
    /// Posts; throws when the node does not run.
    void post_or_throw(std::function<void(driver::Engine&)> function);
    /// Posts deferred; throws when the node does not run.
    void post_deferred_or_throw(std::function<void(driver::Engine&)> function);
    /// Runs on the node's thread.
    virtual std::vector<driver::LinkStatus> link_status() const = 0;
    /// Likewise: the foreign faces of a driver with sockets.
    virtual void read_foreign_faces(NodeStatus&) {}

    struct Call {
        double timeout_s = 0;
        bool in_place = false;
        std::optional<StreamId> stream;
        std::uint64_t seq = 0;
        bool synchronising = false;
        std::uint32_t reserves = 0;
        std::string call = {};  ///< as in StreamedOperation
        bool deferred = false;  ///< as in post_deferred
    };
    OperationId submit(const OwnedPublication* publication,
                       const std::vector<const OwnedFetch*>& fetches, const Call& how);
    /// The same of an operation that is specified already; `owners` keep its buffers.
    OperationId submit(OperationSpec spec, std::vector<nanobind::object> owners, Call how);
    /// For the node's thread alone. Created once per key, because creation takes longer than
    /// signing.
    std::shared_ptr<security::Signer> object_signer(const SigningKey& key);
    /// Runs `function` on the node's thread; `owners` keep the operation's buffers.
    OperationId begin(std::vector<nanobind::object> owners,
                      std::function<void(driver::Engine&, OperationId)> function,
                      bool deferred = false);
    /// Keeps `owner` until the last copy of the result is gone.
    std::shared_ptr<const void> lend(nanobind::object owner) {
        return lent_.lend(std::move(owner));
    }
    virtual std::vector<RequestedObject> take_requested_objects();
    StreamId open_stream(std::vector<wire::Name> prefixes, std::uint32_t depth);

  protected:
    static void require_running(bool running);
    /// A buffer's end may run Python code that calls this: the entry is removed first.
    void release_owners(OperationId id) { const auto released = owners_.extract(id); }
    /// Releases the buffers of discarded operations before another operation takes memory.
    virtual void release_discarded() {}
    /// Releases lent buffers that are no longer in use.
    void release_returned() { lent_.release_returned(); }

  private:
    std::vector<std::pair<SigningKey, std::shared_ptr<security::Signer>>> object_signers_;
    std::unordered_map<OperationId, std::vector<nanobind::object>> owners_;
    LentOwners lent_;
    OperationId next_operation_ = 1;
    StreamId next_stream_ = 1;
};

/// Throws unless it is a label: neighbours drop Holds with any other.
void require_label(const std::string& label);

void bind_node_handle(nanobind::module_& module);
void bind_jobs_of(nanobind::class_<NodeHandle>& node);
void bind_strategies_of(nanobind::module_& module, nanobind::class_<NodeHandle>& node);
void bind_objects_of(nanobind::class_<NodeHandle>& node);
void bind_management_of(nanobind::class_<NodeHandle>& node);

}  // namespace innet::bindings
