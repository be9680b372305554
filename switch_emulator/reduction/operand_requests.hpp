#pragma once
// Interests for operands: one per name, for any number of waiting reductions, with loss detection
// per upstream node and interval.

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "switch_emulator/reduction/keyed_queues.hpp"
#include "switch_emulator/reduction/reduction_name.hpp"
#include "transport/application/application.hpp"
#include "transport/audit.hpp"
#include "transport/fetch/flow_table.hpp"
#include "transport/fetch/loss_detector.hpp"
#include "transport/fetch/receive_credit.hpp"
#include "transport/fetch/request_index.hpp"
#include "transport/fetch/turn_queue.hpp"
#include "transport/wire/text.hpp"

namespace innet::reduction {

/// No place in a table.
inline constexpr std::uint32_t kNoPlace = RequestIndex::kNone;

/// A waiter for an operand: an operand of a reduction in a slot, or a parked reduction.
struct Waiter {
    enum class Kind : std::uint8_t { kSlot, kParked } kind = Kind::kSlot;
    std::uint32_t place = 0;  ///< in the slots, or among the parked
    std::uint32_t operand = 0;
    bool operator==(const Waiter&) const = default;
};

/// The late rank of a Hold, in decimal.
class LateLabel {
  public:
    LateLabel() = default;
    explicit LateLabel(wire::ByteView text);
    wire::ByteView bytes() const { return {bytes_.data(), size_}; }

  private:
    std::array<std::uint8_t, wire::kMaxLabelSize> bytes_{};
    std::uint8_t size_ = 0;
};

struct ReducerOptions;

class OperandRequests {
  public:
    OperandRequests(Forwarder& forwarder, const ReducerOptions& options);

    /// Requests `name` from `hint`, unless it is requested already; adds `waiter` in both cases.
    /// `interval` is the name's interval component. `may_come`: the answer may arrive without a
    /// request; the request is sent when it has not arrived after a while.
    /// Returns the request's place, or kNoPlace when another name has the same hash.
    std::uint32_t request(wire::NameView name, ReductionName::OperandHash hash,
                          wire::ByteView interval, const wire::Name& hint, Waiter waiter,
                          bool may_come, TimePoint now);
    /// Adds a waiter to a request.
    void join(std::uint32_t request, Waiter waiter);
    /// `waiter` no longer waits; the Interest is cancelled with the last one.
    void leave(std::uint32_t request, Waiter waiter);

    /// The request for `name`, or kNoPlace.
    std::uint32_t find(wire::NameView name) const;
    wire::NameView name(std::uint32_t request) const;
    std::span<const Waiter> waiters(std::uint32_t request) const;
    wire::NameHash hash(std::uint32_t request) const { return requests_[request].hash; }

    /// The answer came: ends the request and moves its waiters into `waiters`.
    /// `answer_bytes` is what its answer had.
    void take_answered(std::uint32_t request, std::size_t answer_bytes, bool marked,
                       std::vector<Waiter>& waiters, TimePoint now);

    /// The answer of `hint` for this interval and segment arrived before its request.
    void note_unasked(const wire::Name& hint, wire::ByteView interval,
                      ReductionName::OperandHash hash, TimePoint now);
    /// Whether the request is kept back because its answer may arrive without it.
    bool awaits_offer(std::uint32_t request) const;

    /// Marks it as late: its producer sent a Hold, or several timeouts passed. `label` names the
    /// late rank, empty if unknown.
    void set_late(std::uint32_t request, LateLabel label) {
        requests_[request].late = true;
        requests_[request].label = label;
    }
    bool late(std::uint32_t request) const { return requests_[request].late; }
    const LateLabel& label(std::uint32_t request) const { return requests_[request].label; }
    void on_held(std::uint32_t request, TimePoint now);

    /// Sends the request again, to the same node.
    void repeat(std::uint32_t request, TimePoint now);
    /// Sends the request to `hint` from now on.
    void redirect(std::uint32_t request, const wire::Name& hint, TimePoint now);
    const wire::Name& hint(std::uint32_t request) const;

    /// Appends the requests (as keys) that are lost or due for a refresh; each must be repeated,
    /// redirected or left by all.
    void collect(TimePoint now, std::vector<LostRequest>& into);
    TimePoint next_deadline() const;
    /// Whether a waiting request can be sent.
    bool can_use_credit(TimePoint now) const {
        return (!waiting_.empty() && credit_.has_room(now)) || can_resume();
    }
    /// Sends waiting requests while there is room. Appends to `late` the requests that it keeps
    /// back because their publication is late, with the label of that rank.
    void use_credit(TimePoint now, std::vector<std::uint32_t>& late);
    /// Sends the requests whose answers were expected without them and did not arrive; appends
    /// these requests to `given_up`.
    void end_patience(TimePoint now, std::vector<std::uint32_t>& given_up);
    /// Waits longer from now on: an answer that was sent ahead had been requested.
    void lengthen_patience();
    /// Waits less long from now on: an answer may not have been sent ahead.
    void shorten_patience();
    /// Pairs of node and interval with recent requests.
    std::size_t flow_count() const { return flows_.size(); }
    /// Waiters of all requests.
    std::size_t waiter_count() const;
    /// Whether each request has a waiter and a timer.
    void audit(AuditReport& report) const;

  private:
    using FlowPlace = std::uint32_t;

    /// Requests to one node for one interval. Each interval has its own flow because response times
    /// differ: a node sends its own contribution at once, and a sum that depends on a chain of
    /// others much later. In one flow, the fast answers would make the slow ones look lost.
    struct Flow {
        wire::Name hint;
        wire::NameHash interval = 0;
        LossDetector detector;
        TimePoint latest{};  ///< when the last answer came

        TimePoint next_deadline() const { return detector.next_deadline(); }
    };
    struct Request {
        std::vector<std::uint8_t> name;
        std::vector<Waiter> waiters;
        wire::NameHash hash = 0;
        wire::NameHash interval = 0;
        PublicationTag publication = 0;
        std::uint64_t segment = 0;  ///< of the publication
        std::uint32_t shard = 0;
        FlowPlace flow = 0;
        LateLabel label;
        bool late = false;
        bool contribution = false;
        bool limited = false;    ///< waits for credit and uses it
        bool other_sum = false;  ///< is made of several contributions, by another node
    };
    /// A request that was kept back; another may have its place by then.
    struct Patience {
        std::uint32_t request = 0;
        wire::NameHash hash = 0;
        TimePoint ends{};
    };

    /// The flow to `hint` for an interval; FlowTable::kNone if no request has used it lately.
    FlowPlace flow_to(const wire::Name& hint, wire::NameHash interval);
    /// The flow to `hint`, with one more user.
    FlowPlace use_flow_to(const wire::Name& hint, wire::NameHash interval, bool contribution);
    std::uint32_t new_place();
    void send(std::uint32_t request, TimePoint now);
    /// Segments that arrive in their order: of one shard of a publication, from one flow.
    static std::uint64_t stream_of(FlowPlace flow, PublicationTag publication, std::uint32_t shard);
    /// A segment arrived: earlier ones that were expected without a request are lost; requests
    /// them.
    void note_arrival(FlowPlace flow, const ReductionName::OperandHash& arrived, TimePoint now);
    bool waits_for_credit(const Request& request) const;
    /// Whether there is room for a request that was kept back.
    bool can_resume() const { return !kept_back_.empty() && credit_.has_room_for_late(); }
    void keep_back(std::uint32_t request, std::vector<std::uint32_t>& late);
    void reconsider_kept_back();
    void learn_size(std::size_t answer_bytes);
    bool is_over(const Patience& patience) const {
        const Request& request = requests_[patience.request];
        return !patient_.contains(patience.request) || request.hash != patience.hash;
    }
    void release(std::uint32_t request);
    void leave_patient(std::uint32_t request) {
        if (patient_.contains(request)) patient_.remove(request);
    }

    Forwarder& forwarder_;
    Duration min_rto_;
    Duration max_rto_;
    Duration interest_lifetime_;
    wire::Name own_name_;
    AnswerHistory own_answers_;
    AnswerHistory& answers_;
    ReceiveCredit credit_;  ///< for contributions of other nodes
    std::uint32_t expected_bytes_;
    std::uint32_t other_sums_ = 0;  ///< requests with `other_sum`
    /// Requests for contributions in the order they were made; not those ended or sent meanwhile.
    TurnQueue waiting_;
    /// Requests that are kept back because their answers may come unasked, by stream.
    KeyedQueues patient_;
    Duration patience_;
    std::deque<Patience> patiences_;  ///< in the order in which they began
    TurnQueue kept_back_;             ///< those of late publications, until there is more room
    FlowTable<Flow> flows_;           ///< each used by its requests
    std::vector<Request> requests_;
    std::vector<std::uint32_t> free_;
    RequestIndex index_;
};

}  // namespace innet::reduction
