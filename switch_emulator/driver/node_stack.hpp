#pragma once
// A node with what lives on it: the engine that every driver drives in the same way, whether its
// clock is the machine's or a simulation's. Sans-IO, as its parts are.

#include <memory>
#include <string>
#include <vector>

#include "switch_emulator/forwarding/node.hpp"
#include "switch_emulator/management/management.hpp"
#include "transport/endpoint/endpoint.hpp"
#include "transport/endpoint/operation_streams.hpp"
#include "transport/security/keyring.hpp"

namespace innet::driver {

/// The parts of a node, for functions run where the node runs.
struct Engine {
    forwarding::Node& node;
    Endpoint& endpoint;
    OperationStreams& streams;
    security::Keyring& keyring;
    management::Management& management;
    PacketPool& pool;
    TimePoint now;
};

class NodeStack {
  public:
    /// Operations submitted and tensors published are signed by `signer`; so are the node's sums.
    /// `pool` must outlive the stack and every packet that it has sent.
    NodeStack(forwarding::NodeOptions node_options, const EndpointOptions& endpoint_options,
              security::Keyring keyring, std::unique_ptr<security::Signer> signer, PacketPool& pool,
              const management::ManagementOptions& management_options = {});
    NodeStack(const NodeStack&) = delete;
    NodeStack& operator=(const NodeStack&) = delete;

    Engine engine(TimePoint now) {
        return {node_, endpoint_, streams_, keyring_, management_, pool_, now};
    }
    forwarding::Node& node() { return node_; }
    const forwarding::Node& node() const { return node_; }
    management::Management& management() { return management_; }

    void run_timers(TimePoint now);
    /// Does what packets, timers and functions have left to do, and appends the operations that
    /// have ended.
    void settle(TimePoint now, std::vector<OperationCompletion>& ended);
    /// Ends every operation with kAborted and `why`, and appends them.
    void abort(const std::string& why, TimePoint now, std::vector<OperationCompletion>& ended);
    TimePoint next_deadline() const;
    void audit(AuditReport& report) const;

  private:
    PacketPool& pool_;
    security::Keyring keyring_;
    std::unique_ptr<security::Signer> signer_;
    AnswerHistory answers_;
    forwarding::Node node_;
    management::Management management_;
    Endpoint endpoint_;
    OperationStreams streams_;
};

}  // namespace innet::driver
