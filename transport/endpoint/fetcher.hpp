#pragma once
// Fetches the segments of all operations in flight: schedules requests to nodes, and handles
// answers, refusals, Holds and timeouts.

#include <cstdint>
#include <vector>

#include "transport/application/application.hpp"
#include "transport/endpoint/endpoint.hpp"
#include "transport/endpoint/target_table.hpp"
#include "transport/fetch/flow.hpp"
#include "transport/fetch/flow_table.hpp"
#include "transport/fetch/receive_credit.hpp"
#include "transport/fetch/turn_queue.hpp"
#include "transport/publish/publisher.hpp"

namespace innet {

class Fetcher {
  public:
    /// Everything referenced must outlive the fetcher.
    Fetcher(const EndpointOptions& options, const wire::Name& own_name, Forwarder& forwarder,
            Publisher& publisher, EndpointCounters& counters);

    /// Starts fetching; `operation` must stay where it is until its outcome is taken.
    void start(OperationState& operation, TimePoint now);
    /// Ends an operation; nothing of it stays outstanding.
    void end(OperationState& operation, OperationStatus status, std::string detail,
             bool names_late = false);
    /// Asks for what waits for the room that operations have left which ended since the last call.
    void use_room_left(TimePoint now);
    /// The digest of requested Data, if a tag proves it without hashing; null: it does not. Valid
    /// until any other call.
    const security::Sha256Digest* digest_by_tag(const wire::DataView& data);
    /// Whether a tag can prove the digest.
    bool has_tag_for(wire::NameView name);
    /// Whether a fetch that requested this manifest, or this segment, accepts it by a tag.
    bool vouches_for(const wire::DataView& data);
    /// Operations that ended since the last call: moved to `into`, whose old content is dropped.
    void take_outcomes(std::vector<Outcome>& into);

    void on_data(const wire::DataView& data, bool marked, TimePoint now);
    void on_nack(wire::NameView name, wire::NackReason reason, TimePoint now);
    void on_hold(wire::NameView name, wire::ByteView missing, TimePoint now);
    void on_timer(TimePoint now);
    TimePoint next_deadline() const;

    /// Recently queried nodes.
    std::size_t flow_count() const { return requesters_.size(); }

    MissingReport missing(const OperationState& operation, TimePoint now) const;

    /// Whether windows are kept, and nothing is outstanding that no target waits for.
    void audit(AuditReport& report) const;

  private:
    /// The flow of self-evaluation, whose hint is this node's own name.
    static constexpr std::uint32_t kOwnFlow = 0;

    /// Requests of one kind to one node: sums take longer than what the node has.
    struct Asker {
        AnswerOrder order;
        Flow flow;
        std::vector<std::uint32_t> unsent;  ///< targets with segments not asked yet, oldest first
        bool waits_for_turn = false;        ///< is in `turns_`

        TimePoint next_deadline() const { return flow.next_deadline(); }
    };

    /// `initial_window` is of a flow that is not there yet.
    std::uint32_t flow_to(const FetchTarget& target, std::uint32_t initial_window);
    std::uint32_t flow_to(const wire::Name& hint, AnswerOrder order, std::uint32_t initial_window);
    std::uint32_t initial_window(const FetchSpec& spec, const FetchTarget& target) const;
    /// Segments of one node that a fetch may wait for at once.
    std::uint64_t most_awaited(const FetchSpec& spec) const;
    void add_target(OperationState& operation, std::size_t fetch, std::size_t number);
    void release(OperationState& operation);
    void cancel_outstanding(std::uint32_t place);
    bool outstanding(const TargetState& target, RequestKey key) const;
    /// The targets that fetch the segment, in `matches_`: ending one of them changes the table.
    void find_matches(wire::NameView tensor, std::uint64_t segment);

    /// The flow on which `key` is outstanding, if any.
    Flow* flow_of(const TargetState& target, RequestKey key);
    bool on_own_flow(const Flow& flow) const { return &flow == &requesters_[kOwnFlow].flow; }
    /// These are the bytes that the target names, by digest or tag, if it names any. `digest` is
    /// that of `data`, once it had to be known; `has_tag`: it is known to have its tag.
    bool is_named(const TargetState& target, std::uint64_t segment, const wire::DataView& data,
                  std::optional<security::Sha256Digest>& digest, bool has_tag);
    /// The fetch that waits for this segment, and has a tag for it; null: there is none.
    const FetchSpec* tagged_fetch_of(const SegmentName& name);
    /// Places the answer, or ends the operation when it is not the one expected.
    void deliver(const TargetState& target, std::uint64_t segment, const wire::DataView& data);
    void refused(TargetState& target, Flow& flow, RequestKey key, wire::NackReason reason,
                 TimePoint now);
    /// The answer is not what its receiver waits for.
    void not_accepted(TargetState& target, Flow& flow, RequestKey key, TimePoint now);
    TimePoint retry_time(TargetState& target, const Flow& flow, TimePoint now) const;
    void repeat_lost(std::uint32_t flow, TimePoint now);

    void pump(std::uint32_t flow, TimePoint now);
    void pump_all(TimePoint now);
    /// Sends one request of a flow; false when it has none, or no room.
    bool send_next(std::uint32_t flow, TimePoint now);
    void wait_for_turn(std::uint32_t flow);
    ReceiveCredit& credit_of(const Flow& flow) { return on_own_flow(flow) ? own_credit_ : credit_; }
    /// Flows send one request each in turn, up to the credit.
    void use_credit(TimePoint now);
    std::optional<RequestKey> next_request(Asker& requester);
    /// The flow that a request of `requester` should leave by now.
    Flow& route(Asker& requester, const TargetState& target, TimePoint now);
    void send(Flow& flow, RequestKey key, TimePoint now);
    std::uint32_t answer_bytes(const TargetState& target, std::uint64_t segment) const;

    const EndpointOptions& options_;
    Forwarder& forwarder_;
    Publisher& publisher_;
    EndpointCounters& counters_;
    security::Sha256 sha256_;
    TargetTable targets_;
    AnswerHistory own_answers_;
    AnswerHistory& answers_;
    ReceiveCredit credit_;         ///< for answers of other nodes
    ReceiveCredit own_credit_;     ///< for this node's own sums, with remote operands
    FlowTable<Asker> requesters_;  ///< each used by the targets whose home it is
    std::vector<Outcome> outcomes_;
    TurnQueue turns_;         ///< flows that may have more to send, with a `receive_credit_bytes`
    bool room_left_ = false;  ///< in windows, by operations that ended with requests outstanding
    std::uint32_t vouching_ = 0;  ///< place of the target that vouches for the latest packet
    // Kept between calls for their capacity.
    std::vector<LostRequest> lost_;
    std::vector<std::uint32_t> matches_;
};

}  // namespace innet
