#pragma once
// Evaluates named reductions: requests the operands of an interval, adds them from left to right,
// signs and answers. Bounded in slots; a slot holds the operands of one segment until all have
// arrived.
//
// When no slot is free, the reducer preempts a slot whose operand is late (held by its producer, or
// unanswered after several timeouts): it parks the oldest such reduction, and restarts it when the
// late operand arrives and a slot is free. Without a free slot it nacks the requesters (NoSlot),
// which evaluate the reduction elsewhere.
//
// Jobs share the slots by weight (`switch_emulator/jobs/`): a job without any rule here leaves its
// part to the others, and jobs may borrow unused slots. A job below its guarantee always gets a
// slot: the job that has borrowed most returns one at once, its oldest late one (parked) or else
// its newest (nacked NoSlot).

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch_emulator/jobs/job_table.hpp"
#include "transport/application/application.hpp"
#include "transport/audit.hpp"
#include "transport/fetch/loss_detector.hpp"
#include "transport/metric.hpp"
#include "transport/security/keyring.hpp"

namespace innet::reduction {

/// One operand of a rule `<interval> = operand + operand + …`, with the node that serves it.
struct Operand {
    wire::Name interval;  ///< one component: `3` or `0-3`
    wire::Name hint;      ///< ForwardingHint, /n/<node>
};

struct Rule {
    wire::Name group;     ///< /<job>/<group>
    wire::Name interval;  ///< one component
    std::vector<Operand> operands;
    bool primary = true;  ///< false: only for evaluating by oneself when the placed node cannot
    /// By shard, the segment number modulo their count: /n/<node>, which gets the sum unrequested
    /// when all operands came unrequested. An empty name: none, as for all without any.
    std::vector<wire::Name> ahead_to;
};

/// A source of rules that are installed on demand: a node in its own process has all its rules
/// installed, thousands of nodes in one process share a source.
class RuleSource {
  public:
    virtual ~RuleSource() = default;
    /// Called when no rule is installed; the reducer installs the returned rule.
    /// `interval` is one component's value. The rule is not primary.
    virtual std::optional<Rule> rule_for(wire::NameView group, wire::ByteView interval) = 0;
};

struct ReducerOptions {
    /// /n/<node>: the hint by which the node evaluates an operand itself. Empty: it never does.
    wire::Name own_name;
    std::uint32_t slots = 4096;  ///< concurrent reductions; 0 refuses all
    Duration interest_lifetime = std::chrono::milliseconds(1000);
    Duration min_rto = std::chrono::milliseconds(5);
    Duration max_rto = std::chrono::milliseconds(500);
    std::uint32_t timeouts_before_self_evaluation = 5;
    /// Limit of other nodes' contributions in flight, in bytes; 0: no limit.
    std::uint64_t receive_credit_bytes = 0;
    double receive_rate_bps = 0;  ///< rate of this node's links, for the credit; 0: unknown
    /// Shared with the node's endpoint; must outlive the reducer. Null: it is not shared.
    AnswerHistory* answers = nullptr;
};

struct ReducerCounters {
    std::uint64_t reductions_started = 0;
    std::uint64_t reductions_completed = 0;
    std::uint64_t reductions_abandoned = 0;
    std::uint64_t reductions_parked = 0;
    std::uint64_t refused_no_slot = 0;
    std::uint64_t slots_taken_back = 0;
    std::uint64_t fallback_evaluations = 0;
    std::uint64_t operand_retransmissions = 0;
    std::uint64_t contributions_ahead = 0;
    std::uint64_t sums_ahead = 0;
    std::uint64_t mismatches = 0;
    std::uint64_t overflows = 0;
    std::uint64_t slots_in_use = 0;
    std::uint64_t slots_in_use_max = 0;
    std::uint64_t flows = 0;

    static constexpr auto metrics() {
        using enum MetricKind;
        return std::to_array<Metric<ReducerCounters>>({
            {"reductions_started", "reductions_started", kCounter, "Reductions that took a slot",
             &ReducerCounters::reductions_started},
            {"reductions_completed", "reductions_completed", kCounter,
             "Reductions that gave a result", &ReducerCounters::reductions_completed},
            {"reductions_abandoned", "reductions_abandoned", kCounter,
             "Reductions dropped because no requester waited any more",
             &ReducerCounters::reductions_abandoned},
            {"reductions_parked", "reductions_parked", kCounter,
             "Reductions that released their slot while a rank was late",
             &ReducerCounters::reductions_parked},
            {"refused_no_slot", "reductions_refused", kCounter,
             "Reductions refused because no slot was free", &ReducerCounters::refused_no_slot},
            {"slots_taken_back", "slots_taken_back", kCounter,
             "Slots revoked for a job that had less than its guarantee",
             &ReducerCounters::slots_taken_back},
            {"fallback_evaluations", "fallback_evaluations", kCounter,
             "Reductions evaluated for a node that could not",
             &ReducerCounters::fallback_evaluations},
            {"operand_retransmissions", "operand_retransmissions", kCounter,
             "Operands requested again", &ReducerCounters::operand_retransmissions},
            {"contributions_ahead", "contributions_ahead", kCounter,
             "Contributions and sums received without a pending Interest and kept for their sum",
             &ReducerCounters::contributions_ahead},
            {"sums_ahead", "sums_ahead", kCounter,
             "Sums sent to the node that adds them before it requested them",
             &ReducerCounters::sums_ahead},
            {"mismatches", "mismatches", kCounter,
             "Reductions whose operands differ in type or size", &ReducerCounters::mismatches},
            {"overflows", "overflows", kCounter, "Sums of integers that left their type",
             &ReducerCounters::overflows},
            {"slots_in_use", "reduction_slots_in_use", kGauge, "Reductions under way",
             &ReducerCounters::slots_in_use},
            {"slots_in_use_max", "reduction_slots_in_use_max", kGauge,
             "Most reductions under way at once", &ReducerCounters::slots_in_use_max},
            {"flows", "reduction_flows", kGauge, "Pairs of node and interval requested lately",
             &ReducerCounters::flows},
        });
    }
};
static_assert(has_metric_for_each_member<ReducerCounters>());

/// A job's part of the slots.
struct JobSlots {
    std::uint64_t in_use = 0;
    std::uint64_t in_use_max = 0;
    std::uint64_t guaranteed = 0;
    std::uint64_t refused_no_slot = 0;
    std::uint64_t taken_back = 0;  ///< borrowed ones that another job needed
};

enum class Admission : std::uint8_t { kAccepted, kNoRule, kNoSlot };

class Reducer final : public Requester {
  public:
    /// `jobs` tells whose a rule is, and must outlive the reducer. `signer` signs the sums of jobs
    /// that have no signer of their own, and may be null without such rules.
    Reducer(ReducerOptions options, const jobs::JobTable& jobs, Forwarder& forwarder,
            PacketPool& pool, security::Signer* signer);
    ~Reducer() override;

    /// Adds a rule, or replaces the one for the same group and interval. With the same operands,
    /// running reductions continue and use the new hints; with other operands they are nacked (a
    /// group's expression is fixed, so this is a new group of the same name). Throws
    /// std::invalid_argument for a rule without operands or with an interval that is not one
    /// component.
    void install(const Rule& rule);
    /// Removes all rules of a group, frees its slots and nacks (NoRule) its requesters.
    void remove_group(const wire::Name& group);
    std::vector<Rule> rules() const;
    void set_signer(security::Signer* signer);
    /// Sums of the group are signed by `signer`, until it is removed; null: by their job's again.
    void set_group_signer(const wire::Name& group, const std::shared_ptr<security::Signer>& signer);
    /// The signer of packets with that name and key: the group's, the job's or the node's; null
    /// when none has the key.
    security::Signer* signer_of(wire::NameView name, wire::NameView key_name) const;
    /// It outlives the reducer; null (the start) means that installed rules are all there are.
    void set_rule_source(RuleSource* source);

    /// A job was added to the table, or has another weight or signer now. Null: the node's own. The
    /// signer must outlive the job. Throws std::invalid_argument when the node has rules below a
    /// new job's prefix already.
    void install_job(const jobs::Job& job, security::Signer* signer);
    /// Takes the job's rules away like `remove_group`, before the job leaves the table.
    void remove_job(jobs::JobId job);
    JobSlots job_slots(jobs::JobId job) const;

    /// Starts the reduction `name`, which has a PIT entry. `allow_fallback`: also by a rule that is
    /// not primary. A name already in work is kAccepted.
    Admission admit(wire::NameView name, bool allow_fallback, TimePoint now);
    /// Stops the reduction `name`, which has no requester any more.
    void abandon(wire::NameView name);

    /// Whether Data of that name may be an operand here that another node makes.
    bool may_use(wire::NameView name) const;
    /// A verified contribution or sum that was not requested. It is kept for an Interest's
    /// lifetime; the sum that it is for waits a moment for others that came ahead before, and then
    /// requests them. With all its operands, a sum that goes ahead is made and sent at once. False
    /// when the Data is not used.
    bool on_offer(const wire::DataView& data, const PacketRef& packet, bool marked, TimePoint now);

    void on_data(const wire::DataView& data, const PacketRef& packet, bool marked,
                 TimePoint now) override;
    void on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) override;
    void on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) override;

    void on_timer(TimePoint now);
    TimePoint next_deadline() const;
    const ReducerCounters& counters() const;

    /// Whether `name` is being reduced, in a slot or parked.
    bool works_on(wire::NameView name) const;
    /// The number of running reductions, also parked ones.
    std::size_t in_work() const;
    /// Whether slots, parked reductions and requests for operands agree.
    void audit(AuditReport& report) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace innet::reduction
