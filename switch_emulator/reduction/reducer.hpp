#pragma once
// Evaluates named reductions: asks for the operands of an interval, adds them from left to right,
// signs and answers. Bounded in slots; a slot holds the operands of one segment until all are
// there.
//
// A slot whose operand is late (held by its producer, or unanswered after several timeouts) may be
// taken away when no other is free: the oldest such reduction is parked, and starts anew when the
// late operand comes, if a slot is free then; else whoever waits is nacked (NoSlot) and evaluates
// it elsewhere.
//
// Jobs share the slots by weight (`switch_emulator/jobs/`): a job without any rule here leaves its
// part to the others, and what is not in use may be borrowed. A job below its guarantee is never
// refused for want of a slot: the job that has borrowed most gives one back at once, its oldest
// late one (parked) or else its newest (nacked NoSlot).

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "switch_emulator/jobs/job_table.hpp"
#include "transport/application/application.hpp"
#include "transport/audit.hpp"
#include "transport/security/keyring.hpp"

namespace innet::reduction {

/// `<interval> = operand + operand + …`, with the node to ask for each.
struct Operand {
    wire::Name interval;  ///< one component: `3` or `0-3`
    wire::Name hint;      ///< ForwardingHint, /n/<node>
};

struct Rule {
    wire::Name group;     ///< /<job>/<group>
    wire::Name interval;  ///< one component
    std::vector<Operand> operands;
    bool primary = true;  ///< false: only for evaluating by oneself when the placed node cannot
};

/// Knows rules that a node can do without until it needs them: a node alone on its machine has all
/// of them installed, thousands of nodes in one process share one source.
class RuleSource {
  public:
    virtual ~RuleSource() = default;
    /// Asked when no rule is installed; the answer is then installed, and not asked for again.
    /// `interval` is one component's value. The rule is not primary.
    virtual std::optional<Rule> rule_for(wire::NameView group, wire::ByteView interval) = 0;
};

struct ReducerOptions {
    /// /n/<node>: the hint by which the node evaluates an operand itself. Empty: it never does.
    wire::Name own_name;
    std::uint32_t slots = 4096;  ///< reductions at a time; 0 refuses all
    Duration interest_lifetime = std::chrono::milliseconds(1000);
    Duration min_rto = std::chrono::milliseconds(5);
    Duration max_rto = std::chrono::milliseconds(500);
    std::uint32_t timeouts_before_self_evaluation = 5;
    /// Bytes of other nodes' contributions on their way at once; 0: no limit.
    std::uint64_t receive_credit_bytes = 0;
};

struct ReducerCounters {
    std::uint64_t reductions_started = 0;
    std::uint64_t reductions_completed = 0;
    std::uint64_t reductions_abandoned = 0;  ///< nobody waited any more
    std::uint64_t reductions_parked = 0;     ///< gave their slot up while a rank was late
    std::uint64_t refused_no_slot = 0;
    std::uint64_t slots_taken_back = 0;  ///< nacked for a job below its guarantee
    std::uint64_t fallback_evaluations = 0;
    std::uint64_t operand_retransmissions = 0;
    std::uint64_t mismatches = 0;
    std::uint64_t overflows = 0;
    std::uint64_t slots_in_use = 0;
    std::uint64_t slots_in_use_max = 0;
    std::uint64_t flows = 0;  ///< pairs of node and interval asked for lately
};

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

    /// Adds a rule, or replaces the one for the same group and interval: with the same operands,
    /// what is in work goes on and asks the new hints; with others (a group's expression is fixed,
    /// so this is a new life of the group), it is nacked. Throws std::invalid_argument for a rule
    /// without operands or with an interval that is not one component.
    void install(const Rule& rule);
    /// Takes all rules of a group away, frees its slots and nacks (NoRule) whoever waits.
    void remove_group(const wire::Name& group);
    std::vector<Rule> rules() const;
    void set_signer(security::Signer* signer);
    /// Sums of the group are signed by `signer`, until it is removed; null: by their job's again.
    void set_group_signer(const wire::Name& group, const std::shared_ptr<security::Signer>& signer);
    /// It outlives the reducer; null (the start) means that installed rules are all there are.
    void set_rule_source(RuleSource* source);

    /// A job was added to the table, or has another weight or signer now. Null: the node's own. The
    /// signer must outlive the job. Throws std::invalid_argument when the node has rules below a
    /// new job's prefix already.
    void install_job(const jobs::Job& job, security::Signer* signer);
    /// Takes the job's rules away like `remove_group`, before the job leaves the table.
    void remove_job(jobs::JobId job);
    JobSlots job_slots(jobs::JobId job) const;

    /// Somebody waits for `name` (its PIT entry exists). `allow_fallback`: also by a rule that is
    /// not primary. A name already in work is kAccepted.
    Admission admit(wire::NameView name, bool allow_fallback, TimePoint now);
    /// Nobody waits for `name` any more.
    void abandon(wire::NameView name);

    void on_data(const wire::DataView& data, const PacketRef& packet, bool marked,
                 TimePoint now) override;
    void on_nack(wire::NameView name, wire::NackReason reason, TimePoint now) override;
    void on_hold(wire::NameView name, wire::ByteView missing, TimePoint now) override;

    void on_timer(TimePoint now);
    TimePoint next_deadline() const;
    const ReducerCounters& counters() const;

    /// Whether `name` is in work, in a slot or parked.
    bool works_on(wire::NameView name) const;
    /// How many names are in work.
    std::size_t in_work() const;
    /// Whether slots, parked reductions and requests for operands agree.
    void audit(AuditReport& report) const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace innet::reduction
