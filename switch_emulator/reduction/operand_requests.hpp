#pragma once
// Interests for operands: one per name, however many reductions wait for it, with loss detection
// per asked node and interval.

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "switch_emulator/reduction/reduction_name.hpp"
#include "transport/application/application.hpp"
#include "transport/audit.hpp"
#include "transport/fetch/flow_table.hpp"
#include "transport/fetch/loss_detector.hpp"
#include "transport/fetch/receive_credit.hpp"
#include "transport/fetch/request_index.hpp"
#include "transport/wire/text.hpp"

namespace innet::reduction {

/// No place in a table.
inline constexpr std::uint32_t kNoPlace = RequestIndex::kNone;

/// Whoever waits for an operand: an operand of a reduction in a slot, or a parked reduction.
struct Waiter {
    enum class Kind : std::uint8_t { kSlot, kParked } kind = Kind::kSlot;
    std::uint32_t place = 0;  ///< in the slots, or among the parked
    std::uint32_t operand = 0;
    bool operator==(const Waiter&) const = default;
};

/// Who is late, as a Hold says it: a rank in decimal.
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

    /// Asks `hint` for `name`, unless it is asked for already; either way `waiter` waits for it.
    /// `interval` is the name's interval component.
    /// The request's place, or kNoPlace when another name has the same hash.
    std::uint32_t ask(wire::NameView name, ReductionName::OperandHash hash, wire::ByteView interval,
                      const wire::Name& hint, Waiter waiter, TimePoint now);
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

    /// Late: its producer said so, or it went unanswered for long. `label` says who, empty if
    /// unknown.
    void set_late(std::uint32_t request, LateLabel label) {
        requests_[request].late = true;
        requests_[request].label = label;
    }
    bool late(std::uint32_t request) const { return requests_[request].late; }
    const LateLabel& label(std::uint32_t request) const { return requests_[request].label; }
    void on_held(std::uint32_t request, TimePoint now);

    /// Asks again, at the same node.
    void repeat(std::uint32_t request, TimePoint now);
    /// Asks `hint` from now on.
    void redirect(std::uint32_t request, const wire::Name& hint, TimePoint now);
    const wire::Name& hint(std::uint32_t request) const;

    /// Appends the requests (as keys) that are lost or due for a refresh; each must be repeated,
    /// redirected or left by all.
    void collect(TimePoint now, std::vector<LostRequest>& into);
    TimePoint next_deadline() const;
    /// Whether a request waits for room that there is.
    bool can_use_credit() const { return !waiting_.empty() && credit_.has_room(); }
    /// Sends what waited for room, as far as there is room now.
    void use_credit(TimePoint now);
    /// Pairs of node and interval asked for lately.
    std::size_t flow_count() const { return flows_.size(); }
    /// Those who wait, of all requests.
    std::size_t waiter_count() const;
    /// Whether somebody waits for each request, and each is timed.
    void audit(AuditReport& report) const;

  private:
    using FlowPlace = std::uint32_t;

    /// What is asked of one node for one interval. Intervals are apart because they differ in how
    /// long they take: a node gives its own contribution at once, and a sum that itself waits for a
    /// chain of others much later; in one flow the quick answers would make the slow ones look
    /// lost.
    struct Flow {
        wire::Name hint;
        wire::NameHash interval = 0;
        LossDetector detector;

        TimePoint next_deadline() const { return detector.next_deadline(); }
    };
    struct Request {
        std::vector<std::uint8_t> name;
        std::vector<Waiter> waiters;
        wire::NameHash hash = 0;
        wire::NameHash interval = 0;
        PublicationTag publication = 0;
        FlowPlace flow = 0;
        LateLabel label;
        bool late = false;
        bool limited = false;  ///< waits for credit and takes it
    };

    /// The flow to `hint`, with one more user.
    FlowPlace use_flow_to(const wire::Name& hint, wire::NameHash interval);
    std::uint32_t new_place();
    void send(std::uint32_t request, TimePoint now);
    bool waits_for_credit(const Request& request) const;
    void learn_size(std::size_t answer_bytes);
    void release(std::uint32_t request);

    Forwarder& forwarder_;
    Duration min_rto_;
    Duration max_rto_;
    Duration interest_lifetime_;
    ReceiveCredit credit_;  ///< for contributions
    std::uint32_t expected_bytes_;
    /// Requests for contributions in the order they were made; not those ended or sent meanwhile.
    std::deque<std::uint32_t> waiting_;
    FlowTable<Flow> flows_;  ///< each used by its requests
    std::vector<Request> requests_;
    std::vector<std::uint32_t> free_;
    RequestIndex index_;
};

}  // namespace innet::reduction
