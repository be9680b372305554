#include "switch_emulator/driver/node_stack.hpp"

#include <algorithm>
#include <utility>

namespace innet::driver {
namespace {

forwarding::NodeOptions with_answers(forwarding::NodeOptions options, AnswerHistory& answers) {
    options.reducer.answers = &answers;
    return options;
}

EndpointOptions with_answers(EndpointOptions options, AnswerHistory& answers) {
    options.answers = &answers;
    return options;
}

}  // namespace

NodeStack::NodeStack(forwarding::NodeOptions node_options, const EndpointOptions& endpoint_options,
                     security::Keyring keyring, std::unique_ptr<security::Signer> signer,
                     PacketPool& pool, const management::ManagementOptions& management_options)
    : pool_(pool),
      keyring_(std::move(keyring)),
      signer_(std::move(signer)),
      node_(with_answers(node_options, answers_), pool_, keyring_, signer_.get()),
      management_(node_, pool_, management_options),
      endpoint_(with_answers(endpoint_options, answers_), node_options.own_name, node_, pool_,
                *signer_),
      streams_(endpoint_) {
    node_.set_application(&endpoint_);
    node_.set_management(&management_);
}

void NodeStack::run_timers(TimePoint now) {
    if (node_.next_deadline() <= now) {
        node_.on_timer(now);
    }
    // Before the endpoint's, which ends the operations that these wait for.
    streams_.on_timer(now);
    if (endpoint_.next_deadline() <= now) {
        endpoint_.on_timer(now);
    }
}

void NodeStack::settle(TimePoint now, std::vector<OperationCompletion>& ended) {
    // An end can start an operation that this node alone answers, and so ends it, too.
    std::size_t seen;
    do {
        seen = ended.size();
        node_.run_pending(now);
        streams_.take_completions(ended, now);
    } while (ended.size() != seen);
}

void NodeStack::abort(const std::string& why, TimePoint now,
                      std::vector<OperationCompletion>& ended) {
    streams_.abort(wire::Name(), why, now);
    streams_.take_completions(ended, now);
}

TimePoint NodeStack::next_deadline() const {
    return std::min({node_.next_deadline(), endpoint_.next_deadline(), streams_.next_deadline()});
}

void NodeStack::audit(AuditReport& report) const {
    node_.audit(report);
    endpoint_.audit(report);
}

}  // namespace innet::driver
