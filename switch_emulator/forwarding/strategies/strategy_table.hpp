#pragma once
// The strategies that a node uses, and for which names.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "switch_emulator/forwarding/strategies/best_route.hpp"
#include "switch_emulator/forwarding/strategies/registry.hpp"
#include "switch_emulator/tables/strategy_choice.hpp"

namespace innet::forwarding::strategies {

/// Best-route decides for all names that nothing else was chosen for. Prefixes that name the same
/// strategy share it with what it has measured.
class StrategyTable {
  public:
    explicit StrategyTable(std::uint64_t seed) : seed_(seed) {}

    /// Replaces what was chosen for that prefix. False when there is no such strategy, or no room
    /// for another one (`kMaxStrategies`).
    bool choose(const wire::Name& prefix, wire::NameView strategy);
    bool choose(const wire::Name& prefix, NamedStrategy own);
    /// False when nothing was chosen for exactly that prefix.
    bool unset(const wire::Name& prefix);
    /// Removes strategies that no prefix uses. Call it after the PIT entries changed strategy.
    void drop_unused();

    bool empty() const { return choice_.size() == 0; }
    std::size_t size() const { return choice_.size(); }
    bool contains(const wire::Name& prefix) const { return choice_.find(prefix) != nullptr; }
    tables::StrategyNumber number_for(const tables::NamePrefixes& name) const;
    Strategy& at(tables::StrategyNumber number) {
        return number == tables::kDefaultStrategy ? best_route_ : *strategies_[number - 1].strategy;
    }
    template <typename Visit>
    void for_each_strategy(Visit&& visit) {
        for (NamedStrategy& named : strategies_) {
            if (named.strategy) visit(*named.strategy);
        }
    }
    /// `visit(prefix, name of its strategy)`.
    template <typename Visit>
    void for_each_choice(Visit&& visit) const {
        choice_.for_each([&](const tables::StrategyChoiceEntry& entry) {
            visit(entry.prefix, name_of(entry.strategy));
        });
    }

    StrategyCounters counters;

  private:
    static constexpr std::size_t kMaxStrategies = 1024;

    const wire::Name& name_of(tables::StrategyNumber number) const;
    bool set(const wire::Name& prefix, NamedStrategy named);

    std::uint64_t seed_;
    BestRoute best_route_;
    wire::Name default_name_ = default_strategy_name();
    tables::StrategyChoice choice_;
    std::vector<NamedStrategy> strategies_;  ///< number - 1; without a strategy: free
};

}  // namespace innet::forwarding::strategies
