#pragma once
// Which strategy decides for which names.

#include <cstdint>

#include "switch_emulator/tables/prefix_table.hpp"

namespace innet::tables {

/// Number of a strategy of the node; 0 is the default one.
using StrategyNumber = std::uint16_t;
inline constexpr StrategyNumber kDefaultStrategy = 0;

struct StrategyChoiceEntry {
    wire::Name prefix;
    StrategyNumber strategy = kDefaultStrategy;
};

using StrategyChoice = PrefixTable<StrategyChoiceEntry>;

}  // namespace innet::tables
