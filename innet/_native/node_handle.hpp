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
    OperationId publish_object(const wire::Name& name, ReadableBytes bytes, const SigningKey& key,
                               std::size_t max_packet_bytes, const ObjectBuffer* root_into,
                               bool draft, bool deferred);
    /// Publishes lent data, deferred, as one operation; also a buffer with the root of each object.
    std::pair<OperationId, std::vector<ObjectBuffer>> publish_objects(
        const std::vector<std::string>& names, const std::vector<ReadableBytes>& data,
        const SigningKey& key, std::size_t max_packet_bytes, bool draft);
    OperationId fetch_object(const wire::Name& name, const wire::Name& hint,
                             const wire::Name& signer, nanobind::handle_t<ObjectBuffer> into,
                             double timeout_s, bool may_be_absent);
    /// Fetches that start together: each operation, and the buffer that it fills.
    std::vector<std::pair<OperationId, ObjectBuffer>> fetch_objects(
        const std::vector<std::string>& names, const wire::Name& hint, const wire::Name& signer,
        double timeout_s, bool root_only, bool to_neighbour,
        const std::vector<std::string>& attached, std::size_t max_request_bytes);
    OperationId publish_sealed_object(const wire::Name& name, ReadableBytes bytes,
                                      nanobind::bytes root, std::size_t max_packet_bytes);
    OperationId publish_fetched_object(const wire::Name& name,
                                       nanobind::handle_t<ObjectBuffer> fetched,
                                       std::size_t max_packet_bytes);
    OperationId watch_objects();
    virtual std::vector<RequestedObject> take_requested_objects();
    void keep_objects(const wire::Name& requests, const wire::Name& signer, const SigningKey& key,
                      nanobind::bytes answer, std::size_t max_packet_bytes, std::size_t window,
                      double fetch_s, double answer_s, std::uint64_t budget_bytes);
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
    /// Runs `function` on the node's thread; `owners` keep the operation's buffers.
    OperationId begin(std::vector<nanobind::object> owners,
                      std::function<void(driver::Engine&, OperationId)> function,
                      bool deferred = false);
    OperationId begin_fetch(ObjectFetchSpec spec, std::vector<nanobind::object> owners,
                            double timeout_s, bool deferred);

    std::vector<std::pair<SigningKey, std::shared_ptr<security::Signer>>> object_signers_;
    std::unordered_map<OperationId, std::vector<nanobind::object>> owners_;
    LentOwners lent_;
    OperationId next_operation_ = 1;
    StreamId next_stream_ = 1;
};

void bind_node_handle(nanobind::module_& module);
void bind_jobs_of(nanobind::class_<NodeHandle>& node);
void bind_strategies_of(nanobind::module_& module, nanobind::class_<NodeHandle>& node);
void bind_management_of(nanobind::class_<NodeHandle>& node);

}  // namespace innet::bindings
