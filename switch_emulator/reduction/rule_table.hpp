#pragma once
// The reduction rules of a node, found by group prefix and interval.

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "switch_emulator/reduction/reducer.hpp"
#include "switch_emulator/reduction/reduction_name.hpp"
#include "transport/publish/ahead_history.hpp"

namespace innet::reduction {

struct InstalledRule;

/// What is known of a group's interval as an operand of rules.
struct OperandUse {
    std::size_t rules = 0;                ///< rules with this operand
    InstalledRule* rule_ahead = nullptr;  ///< one of them whose sum is sent ahead
    /// How often it has to arrive ahead of requests before the node waits for it.
    std::uint32_t due = 0;
    using Segment = std::pair<std::uint64_t, std::uint64_t>;  ///< sequence number and segment
    std::vector<std::optional<Segment>> latest{1};  ///< by shard: the largest that reached a sum
    std::optional<Segment> given_up;                ///< the last that did not arrive in time

    std::optional<Segment>& latest_of(std::uint64_t segment) {
        return latest[segment % latest.size()];
    }
};

/// Decides whether sums of one shard are sent ahead, by the success of earlier ones.
class SumsAhead {
  public:
    /// Whether the operation sends its sums ahead: all its segments, or none.
    bool take_turn(std::uint64_t sequence) {
        if (!latest_ || sequence > *latest_) {
            latest_ = sequence;
            goes_ahead_ = history_.take_turn();
        }
        return goes_ahead_;
    }
    /// A sum of that operation was requested, though it was sent ahead. The first requests of many
    /// may have crossed their sums: so they count once.
    void on_requested(std::uint64_t sequence) {
        if (requested_ && sequence <= *requested_) return;
        requested_ = sequence;
        history_.on_requested();
    }

  private:
    AheadHistory history_;
    std::optional<std::uint64_t> latest_;
    std::optional<std::uint64_t> requested_;
    bool goes_ahead_ = true;
};

/// A rule with what is needed to evaluate it quickly.
struct InstalledRule {
    Rule rule;
    jobs::JobId job = jobs::kNoJob;
    std::shared_ptr<security::Signer> signer;  ///< signs the group's sums; null: the job's signer
    /// By operand: the hash of the group prefix and the operand's interval, to be continued.
    std::vector<wire::NameHasher> operand_hashers;
    std::vector<OperandUse*> uses;  ///< by operand
    std::uint32_t awaited = 0;      ///< the operand that was last missing among those sent ahead
    std::vector<SumsAhead> sums_ahead;  ///< by shard

    std::size_t operands() const { return rule.operands.size(); }
    /// An operand's interval component, with its type and length.
    wire::ByteView operand_interval(std::size_t operand) const {
        return rule.operands[operand].interval.view().value();
    }
    /// Whether some operand has a contributor: a reduction over none has no value.
    bool has_part_in(const ContributorSet& contributors) const;
    /// Both add the same intervals in the same order (hints may differ).
    bool same_expression(const Rule& other) const;
    std::size_t shards() const { return std::max<std::size_t>(rule.ahead_to.size(), 1); }
    /// The node to which the sum of that segment is sent ahead; empty: none.
    const wire::Name& place_of(std::uint64_t segment) const {
        return rule.ahead_to[segment % rule.ahead_to.size()];
    }
    bool goes_ahead(std::uint64_t segment) const {
        return !rule.ahead_to.empty() && !place_of(segment).view().empty();
    }
    SumsAhead& sums_ahead_of(std::uint64_t segment) {
        return sums_ahead[segment % sums_ahead.size()];
    }
};

class RuleTable {
  public:
    /// The rule that evaluates `name`, or null. Rules keep their address until they are removed.
    InstalledRule* find(const ReductionName& name);
    /// The rule for the group and interval of another one, or null.
    InstalledRule* find(const wire::Name& group, const wire::Name& interval);
    /// The record of an operand, by its group and interval; null when no rule uses it.
    OperandUse* use_of(const ReductionName& operand) {
        const auto found = uses_.find(operand.rule_hash());
        return found == uses_.end() ? nullptr : &found->second;
    }
    /// Adds a rule for an interval that has none, or replaces the one that it has in place.
    /// Throws std::invalid_argument when an interval is not one component of at most kMaxInterval
    /// bytes, the group is empty, or there are no operands, equal ones or more than kMaxOperands.
    InstalledRule& install(const Rule& rule, jobs::JobId job);
    void remove(const InstalledRule& rule);
    std::vector<InstalledRule*> of_group(const wire::Name& group);
    std::vector<InstalledRule*> of_job(jobs::JobId job);
    bool has_any_of(jobs::JobId job) const { return of_jobs_[job] > 0; }
    std::vector<Rule> all() const;

  private:
    InstalledRule* find(wire::NameHash hash, wire::ByteView group, wire::ByteView interval);

    void forget_operands(const InstalledRule& rule);

    std::unordered_multimap<wire::NameHash, InstalledRule> rules_;
    std::array<std::size_t, jobs::kMaxJobIds> of_jobs_{};  ///< rules of each job
    std::unordered_map<wire::NameHash, OperandUse> uses_;  ///< by group and interval
};

}  // namespace innet::reduction
