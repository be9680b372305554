#pragma once
// What Python can do with any node, whoever drives it: a thread of its own or a simulation.

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
    /// The same without waiting. False when the node does not run.
    virtual bool post(std::function<void(driver::Engine&)> function) = 0;
    /// `post`, but at the latest before anything else happens there, and not sooner.
    virtual bool post_unhurried(std::function<void(driver::Engine&)> function) {
        return post(std::move(function));
    }
    /// `post`, which throws when the node does not run.
    void tell(std::function<void(driver::Engine&)> function);
    /// `post_unhurried`, likewise.
    void tell_unhurried(std::function<void(driver::Engine&)> function);
    /// Where the node runs.
    virtual std::vector<driver::LinkStatus> link_status() const = 0;
    /// Likewise: what a driver with sockets knows of foreign faces.
    virtual void read_foreign_faces(NodeStatus&) {}

    struct Call {
        double timeout_s = 0;
        bool in_place = false;
        std::optional<StreamId> stream;
        std::uint64_t seq = 0;
        bool synchronising = false;
        std::uint32_t reserves = 0;
        std::string call = {};  ///< as in StreamedOperation
    };
    OperationId submit(const Publication* publication, const std::vector<const Fetch*>& fetches,
                       const Call& how);
    OperationId publish_object(const wire::Name& name, ReadableBytes bytes, const SigningKey& key,
                               std::size_t max_packet_bytes, const ObjectBuffer* root_into,
                               bool lend, bool unhurried);
    OperationId fetch_object(const wire::Name& name, const wire::Name& hint,
                             const wire::Name& signer, nanobind::handle_t<ObjectBuffer> into,
                             double timeout_s, bool may_be_absent, bool root_only);
    OperationId publish_sealed_object(const wire::Name& name, ReadableBytes bytes,
                                      nanobind::bytes root, std::size_t max_packet_bytes);
    OperationId publish_fetched_object(const wire::Name& name,
                                       nanobind::handle_t<ObjectBuffer> fetched,
                                       std::size_t max_packet_bytes);
    OperationId watch_objects();
    virtual std::vector<AskedObject> take_objects_asked();
    void keep_objects(const wire::Name& requests, const wire::Name& signer, const SigningKey& key,
                      nanobind::bytes answer, std::size_t max_packet_bytes, std::size_t window,
                      double fetch_s, double answer_s, std::uint64_t room_bytes);
    StreamId open_stream(std::vector<wire::Name> prefixes, std::uint32_t depth);

  protected:
    static void require_running(bool running);
    /// The end of a buffer may run Python code that comes back here: the map is whole by then.
    void release_owners(OperationId id) { const auto released = owners_.extract(id); }
    /// Before another operation takes memory: lets go of that of operations nobody waits for.
    virtual void release_discarded() {}
    /// Lets go of what was lent, and is not needed any more.
    void release_returned() { lent_.release_returned(); }

  private:
    /// An operation that `function` begins where the node runs, with memory of `owners`.
    OperationId begin(std::vector<nanobind::object> owners,
                      std::function<void(driver::Engine&, OperationId)> function,
                      bool unhurried = false);

    /// To be used where the node runs alone. Made once for each key: that takes longer than
    /// signing.
    std::shared_ptr<security::Signer> object_signer(const SigningKey& key);

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
