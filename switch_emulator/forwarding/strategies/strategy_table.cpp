#include "switch_emulator/forwarding/strategies/strategy_table.hpp"

#include <algorithm>

namespace innet::forwarding::strategies {

bool StrategyTable::choose(const wire::Name& prefix, wire::NameView strategy) {
    auto made = make_strategy(strategy, ++seed_, counters);
    if (!made) return false;
    if (made->name == default_name_) {
        choice_.at(prefix).strategy = tables::kDefaultStrategy;
        return true;
    }
    for (std::size_t i = 0; i < strategies_.size(); ++i) {
        if (!strategies_[i].strategy || !(strategies_[i].name == made->name)) continue;
        choice_.at(prefix).strategy = static_cast<tables::StrategyNumber>(i + 1);
        return true;
    }
    return set(prefix, std::move(*made));
}

bool StrategyTable::choose(const wire::Name& prefix, NamedStrategy own) {
    return set(prefix, std::move(own));
}

bool StrategyTable::set(const wire::Name& prefix, NamedStrategy named) {
    auto free = std::ranges::find_if(
        strategies_, [](const NamedStrategy& known) { return known.strategy == nullptr; });
    if (free == strategies_.end()) {
        if (strategies_.size() == kMaxStrategies) return false;
        free = strategies_.emplace(strategies_.end());
    }
    *free = std::move(named);
    choice_.at(prefix).strategy =
        static_cast<tables::StrategyNumber>(free - strategies_.begin() + 1);
    return true;
}

bool StrategyTable::unset(const wire::Name& prefix) {
    if (choice_.find(prefix) == nullptr) return false;
    choice_.erase_if(
        [&](const tables::StrategyChoiceEntry& entry) { return entry.prefix == prefix; });
    return true;
}

void StrategyTable::drop_unused() {
    std::vector<bool> used(strategies_.size() + 1, false);
    choice_.for_each(
        [&](const tables::StrategyChoiceEntry& entry) { used[entry.strategy] = true; });
    for (std::size_t i = 0; i < strategies_.size(); ++i) {
        if (!used[i + 1]) strategies_[i] = {};
    }
}

tables::StrategyNumber StrategyTable::number_for(const tables::NamePrefixes& name) const {
    const tables::StrategyChoiceEntry* entry = choice_.longest_match(name);
    return entry == nullptr ? tables::kDefaultStrategy : entry->strategy;
}

const wire::Name& StrategyTable::name_of(tables::StrategyNumber number) const {
    return number == tables::kDefaultStrategy ? default_name_ : strategies_[number - 1].name;
}

}  // namespace innet::forwarding::strategies
