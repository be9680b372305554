#pragma once
// The reduction rules of a node, found by group prefix and interval.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "switch_emulator/reduction/reducer.hpp"
#include "switch_emulator/reduction/reduction_name.hpp"

namespace innet::reduction {

/// What is known of a group's interval as an operand of rules.
struct OperandUse {
    std::size_t rules = 0;  ///< that have it
    /// Where others come ahead of requests, it will; until it does not.
    bool comes_ahead = true;
    /// Sequence and segment number of the last that was waited for in vain.
    std::optional<std::pair<std::uint64_t, std::uint64_t>> given_up;
    /// Largest sequence number that a sum has it of, and the largest segment of that.
    std::optional<std::pair<std::uint64_t, std::uint64_t>> latest;
};

/// A rule with what is needed to evaluate it quickly.
struct InstalledRule {
    Rule rule;
    jobs::JobId job = jobs::kNoJob;
    std::shared_ptr<security::Signer> signer;  ///< of the group's sums; null: the job's
    /// For each operand: hashed so far: the group prefix and the operand's interval.
    std::vector<wire::NameHasher> operand_hashers;
    std::vector<OperandUse*> uses;  ///< of each operand

    std::size_t operands() const { return rule.operands.size(); }
    /// An operand's interval component, with its type and length.
    wire::ByteView operand_interval(std::size_t operand) const {
        return rule.operands[operand].interval.view().value();
    }
    /// Whether some operand has a contributor: a reduction over none has no value.
    bool has_part_in(const ContributorSet& contributors) const;
    /// Both add the same intervals in the same order (hints may differ).
    bool same_expression(const Rule& other) const;
};

class RuleTable {
  public:
    /// The rule that evaluates `name`, or null. Rules keep their address until they are removed.
    InstalledRule* find(const ReductionName& name);
    /// The rule for the group and interval of another one, or null.
    InstalledRule* find(const wire::Name& group, const wire::Name& interval);
    /// The record of an operand, found by its group and interval; null when no rule has it.
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
