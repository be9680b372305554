#include "switch_emulator/reduction/rule_table.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "switch_emulator/reduction/formats/format.hpp"

namespace innet::reduction {

namespace {

using wire::ByteView;
using wire::NameHash;

bool equal_bytes(ByteView left, ByteView right) {
    return std::equal(left.begin(), left.end(), right.begin(), right.end());
}

/// Of `/<group>/<interval>`.
wire::NameHasher rule_hasher(const wire::Name& group, const wire::Name& interval) {
    wire::NameHasher hasher;
    hasher.add(group.view().value());
    hasher.add(interval.view().value());
    return hasher;
}

void check_interval(const wire::Name& interval) {
    const wire::NameView view = interval.view();
    if (view.size() != 1 || view.value().size() > kMaxInterval ||
        view.component(0).type != wire::kGenericComponent) {
        throw std::invalid_argument(
            "a reduction rule's interval must be one component such as 3 or 0-3, not " +
            view.to_uri());
    }
}

void check(const Rule& rule) {
    if (rule.group.view().empty()) {
        throw std::invalid_argument("a reduction rule needs a group prefix such as /job/group");
    }
    check_interval(rule.interval);
    if (rule.operands.empty()) {
        throw std::invalid_argument("the reduction rule for " + rule.interval.view().to_uri() +
                                    " has no operands");
    }
    if (rule.operands.size() > kMaxOperands) {
        throw std::invalid_argument("the reduction rule for " + rule.interval.view().to_uri() +
                                    " has more than " + std::to_string(kMaxOperands) +
                                    " operands; make intermediate intervals");
    }
    for (auto operand = rule.operands.begin(); operand != rule.operands.end(); ++operand) {
        check_interval(operand->interval);
        const auto same = [&](const Operand& other) { return other.interval == operand->interval; };
        if (operand->interval == rule.interval ||
            std::any_of(rule.operands.begin(), operand, same)) {
            throw std::invalid_argument("the reduction rule for " + rule.interval.view().to_uri() +
                                        " uses " + operand->interval.view().to_uri() + " twice");
        }
    }
}

}  // namespace

bool InstalledRule::has_part_in(const ContributorSet& contributors) const {
    return std::ranges::any_of(rule.operands, [&](const Operand& operand) {
        return contributors.intersects(operand.interval.view().value());
    });
}

bool InstalledRule::same_expression(const Rule& other) const {
    return std::equal(
        rule.operands.begin(), rule.operands.end(), other.operands.begin(), other.operands.end(),
        [](const Operand& left, const Operand& right) { return left.interval == right.interval; });
}

InstalledRule* RuleTable::find(const ReductionName& name) {
    return find(name.rule_hash(), name.group().value(), name.interval());
}

InstalledRule* RuleTable::find(const wire::Name& group, const wire::Name& interval) {
    return find(rule_hasher(group, interval).hash(), group.view().value(), interval.view().value());
}

InstalledRule* RuleTable::find(NameHash hash, ByteView group, ByteView interval) {
    const auto [first, last] = rules_.equal_range(hash);
    for (auto entry = first; entry != last; ++entry) {
        const Rule& rule = entry->second.rule;
        if (equal_bytes(rule.interval.view().value(), interval) &&
            equal_bytes(rule.group.view().value(), group)) {
            return &entry->second;
        }
    }
    return nullptr;
}

InstalledRule& RuleTable::install(const Rule& rule, jobs::JobId job) {
    check(rule);
    InstalledRule* installed = find(rule.group, rule.interval);
    if (installed == nullptr) {
        const NameHash hash = rule_hasher(rule.group, rule.interval).hash();
        installed = &rules_.emplace(hash, InstalledRule{})->second;
        ++of_jobs_[job];
    } else if (installed->job != job) {
        --of_jobs_[installed->job];
        ++of_jobs_[job];
    }
    installed->rule = rule;
    installed->job = job;
    forget_operands(*installed);
    installed->operand_hashers.clear();
    installed->uses.clear();
    installed->awaited = 0;
    installed->sums_ahead.assign(rule.ahead_to.size(), {});
    for (const Operand& operand : rule.operands) {
        installed->operand_hashers.push_back(rule_hasher(rule.group, operand.interval));
        OperandUse& use = uses_[installed->operand_hashers.back().hash()];
        if (use.rules++ == 0) use.due = is_contribution(operand.interval.view().value()) ? 0 : 1;
        installed->uses.push_back(&use);
        if (!rule.ahead_to.empty()) use.rule_ahead = installed;
        if (use.latest.size() < installed->shards()) use.latest.assign(installed->shards(), {});
    }
    return *installed;
}

void RuleTable::forget_operands(const InstalledRule& rule) {
    for (const wire::NameHasher& operand : rule.operand_hashers) {
        const auto used = uses_.find(operand.hash());
        if (used->second.rule_ahead == &rule) used->second.rule_ahead = nullptr;
        if (--used->second.rules == 0) uses_.erase(used);
    }
}

void RuleTable::remove(const InstalledRule& rule) {
    forget_operands(rule);
    --of_jobs_[rule.job];
    const auto [first, last] =
        rules_.equal_range(rule_hasher(rule.rule.group, rule.rule.interval).hash());
    rules_.erase(
        std::find_if(first, last, [&](const auto& entry) { return &entry.second == &rule; }));
}

std::vector<InstalledRule*> RuleTable::of_group(const wire::Name& group) {
    std::vector<InstalledRule*> found;
    for (auto& [hash, installed] : rules_) {
        if (installed.rule.group == group) found.push_back(&installed);
    }
    return found;
}

std::vector<InstalledRule*> RuleTable::of_job(jobs::JobId job) {
    std::vector<InstalledRule*> found;
    for (auto& [hash, installed] : rules_) {
        if (installed.job == job) found.push_back(&installed);
    }
    return found;
}

std::vector<Rule> RuleTable::all() const {
    std::vector<Rule> rules;
    rules.reserve(rules_.size());
    for (const auto& [hash, installed] : rules_) rules.push_back(installed.rule);
    return rules;
}

}  // namespace innet::reduction
