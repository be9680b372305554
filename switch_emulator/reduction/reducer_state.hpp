#pragma once
// The state of a Reducer and the steps of a reduction's life.

#include <array>
#include <string_view>
#include <vector>

#include "switch_emulator/reduction/bounded_table.hpp"
#include "switch_emulator/reduction/offers.hpp"
#include "switch_emulator/reduction/operand_requests.hpp"
#include "switch_emulator/reduction/reducer.hpp"
#include "switch_emulator/reduction/result.hpp"
#include "switch_emulator/reduction/rule_table.hpp"
#include "switch_emulator/reduction/slot.hpp"

namespace innet::reduction {

/// Whether a share keeps far more memory alive than it shows. Small buffers are never copied.
inline bool pins_much(const PacketRef& share) {
    constexpr std::size_t kSmallBufferBytes = 512;
    return share.pinned_bytes() > 2 * share.size() + kSmallBufferBytes;
}

struct Reducer::State {
    State(ReducerOptions options_, const jobs::JobTable& job_table_, Forwarder& forwarder_,
          PacketPool& pool_, security::Signer* signer);

    /// What the reducer keeps for a job.
    struct JobPart {
        security::Signer* signer = nullptr;  ///< null: that of kNoJob
        JobSlots counters;
    };

    ReducerOptions options;
    const jobs::JobTable& job_table;
    Forwarder& forwarder;
    PacketPool& pool;
    ReducerCounters counters;
    RuleTable rules;
    RuleSource* rule_source = nullptr;
    std::vector<std::pair<wire::Name, std::shared_ptr<security::Signer>>> group_signers;
    OperandRequests requests;
    ResultBuilder results;
    Offers offers;      ///< of other nodes
    Offers sent_ahead;  ///< sums of this node
    BoundedTable<Slot> slots;
    PlaceQueues late_slots;  ///< slots with a late operand, in the order in which they became late
    BoundedTable<Parked> parked;
    std::array<JobPart, jobs::kMaxJobIds> parts{};
    std::size_t pinned_bytes =
        0;                 ///< of buffers that operands in slots keep alive, each operand counted
    TimePoint last_now{};  ///< for what happens outside of packets and timers (installing rules)
    std::vector<Waiter> answered;          ///< scratch
    std::vector<Given> offered;            ///< scratch
    std::vector<LostRequest> lost;         ///< scratch
    std::vector<std::uint32_t> kept_back;  ///< scratch
    std::vector<std::uint32_t> given_up;   ///< scratch

    // Starting.
    /// The rule for `/<group>/<interval>`, installed from the source if necessary; or null.
    InstalledRule* rule_for(const ReductionName& name);
    const InstalledRule* rule_for(const wire::Name& group, const wire::Name& interval);
    InstalledRule* get_rule(wire::NameView group, wire::ByteView interval);
    InstalledRule& install(const Rule& rule);
    Admission admit(const ReductionName& name, bool allow_fallback, TimePoint now);
    /// Takes a free slot and requests all operands except `given`, which may be null, and those
    /// offered. False when there is no slot.
    bool start(const ReductionName& name, const InstalledRule& rule, bool allow_fallback,
               Given* given, TimePoint now);
    /// Takes a free slot for `name`, and requests no operand; kNoPlace when all slots are in use.
    std::uint32_t take_slot(const ReductionName& name, const InstalledRule& rule);
    bool request_operand(std::uint32_t place, std::uint32_t operand, TimePoint now);

    // Ahead of requests: reducer_ahead.cpp
    /// Keeps an operand that a rule here uses until its sum requests it. False when no rule does.
    bool keep_offer(const wire::DataView& data, const PacketRef& packet, bool marked,
                    TimePoint now);
    /// Makes the sum with this operand that is sent ahead, if all its operands are there.
    void make_ahead(const ReductionName& operand, const OperandUse& use, TimePoint now);
    bool has_offers_for_all(const ReductionName& operand, InstalledRule& rule);
    /// Moves the offers for a starting slot into `offered`, and from there into the slot.
    void take_offers(std::uint32_t place);
    void add_offered(std::uint32_t place, const ReductionName& name);
    /// Whether an operand of a starting slot may arrive unrequested.
    bool may_come(const Slot& slot, std::uint32_t operand) const;
    /// Requests the operands that `offered` has overtaken.
    void note_offered(const ReductionName& name, const InstalledRule& rule, TimePoint now);
    /// Sends a finished sum to the node that adds it, and keeps it in case that requests it.
    void send_ahead(std::uint32_t place, PacketRef data);
    /// Answers with a sum that was sent ahead. False when it is not kept.
    bool answer_again(const ReductionName& name, InstalledRule& rule);

    // Sharing: reducer_sharing.cpp
    /// Gives every job with rules here its share of the slots.
    void divide_slots();
    /// Frees a slot for a new reduction of the job if none is free. False when it cannot.
    bool make_room(jobs::JobId job);
    /// Frees a slot for a parked reduction without parking another one, so that its place stays.
    bool make_room_for_parked(jobs::JobId job);
    void take_slot_back(jobs::JobId debtor);
    /// Parks the job's oldest reduction with a late operand; false if none has one.
    bool park_oldest_late(jobs::JobId job);
    /// Drops a parked reduction to make room for one of `job`; false if none may be dropped.
    bool make_room_to_park(jobs::JobId job);
    void count_no_slot(jobs::JobId job);

    // While operands are awaited.
    /// Ends the request of an operand that arrived, for all its waiters.
    void take_answered(std::uint32_t request, std::size_t answer_bytes, bool marked, TimePoint now);
    void operand_arrived(std::uint32_t place, std::uint32_t operand, ArrivedOperand arrived,
                         bool marked);
    void resume(std::uint32_t parked_place, ArrivedOperand arrived, bool marked, TimePoint now);
    /// The content, in memory of its own size when shares of larger buffers pin too much.
    ArrivedOperand keep(const wire::DataView& data, const PacketRef& packet);
    void repeat_lost(const LostRequest& lost_request, TimePoint now);
    /// Evaluates the request's name on this node, if there is a rule for it and that has not been
    /// tried.
    bool evaluate_here(std::uint32_t request, TimePoint now);
    void request_at_new_hints(const InstalledRule& rule, TimePoint now);
    /// Sends waiting requests for which there is room now.
    void use_credit(TimePoint now);
    /// Requests contributions that were not sent ahead although earlier ones were.
    void end_patience(TimePoint now);

    // Lateness: of a request, and so of the slots that wait for it.
    void set_late(std::uint32_t request, LateLabel label);
    /// Marks the request as late, and sends a Hold to the requesters.
    void announce_late(std::uint32_t request, LateLabel label);
    void redirect(std::uint32_t request, const wire::Name& hint, TimePoint now);
    void mark_late(std::uint32_t place, std::uint32_t operand);
    void clear_late(std::uint32_t place, std::uint32_t operand);
    /// Repeats the Hold to the requesters of a name whose producer is known to be late.
    void repeat_hold(const ReductionName& name, std::uint32_t request);

    // Ending.
    security::Signer* signer_of(const InstalledRule& rule) const;
    void finish(std::uint32_t place);
    void finish_with_error(const Waiter& waiter, wire::TensorErrorCode code, std::string_view text);
    /// Answers every reduction that waits for an operand with the error that arrived for it.
    void forward_error(const wire::DataView& data);
    void answer(const ReductionName& name, PacketRef data, bool marked);
    void refuse(const Waiter& waiter, wire::NackReason reason);
    void refuse_all_of(const InstalledRule& rule, wire::NackReason reason);
    void release(const Waiter& waiter);
    void release_slot(std::uint32_t place);
    void release_parked(std::uint32_t place);

    // Audit: reducer_audit.cpp
    void audit_slot(AuditReport& report, std::uint32_t place) const;
    void audit_operand(AuditReport& report, std::uint32_t place, std::uint32_t operand) const;
    void audit_parked(AuditReport& report, std::uint32_t place) const;
    bool is_waiter(std::uint32_t request, const Waiter& waiter) const;

    const ReductionName& name_of(const Waiter& waiter) const;
    const InstalledRule& rule_of(const Waiter& waiter);
    std::uint32_t& request_of(const Waiter& waiter);
};

}  // namespace innet::reduction
