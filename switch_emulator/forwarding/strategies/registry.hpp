#pragma once
// The strategies that there are, by their names.

#include <cstdint>
#include <memory>
#include <optional>

#include "switch_emulator/forwarding/strategies/strategy.hpp"
#include "transport/wire/name.hpp"

namespace innet::forwarding::strategies {

/// What strategies have done beyond asking one next hop.
struct StrategyCounters {
    std::uint64_t probes = 0;  ///< Interests sent to measure alone
    std::uint64_t copies = 0;  ///< Interests sent beyond the first next hop
    // Decisions that best-route made because the external listener missed the deadline, had too
    // many open questions, or failed.
    std::uint64_t decisions_late = 0;
    std::uint64_t decisions_crowded_out = 0;
    std::uint64_t decisions_failed = 0;
};

/// A strategy and its full name.
struct NamedStrategy {
    wire::Name name;
    std::unique_ptr<Strategy> strategy;
};

/// Makes what `name` says: `/localhost/nfd/strategy/<best-route|multicast|asf|clone>`, then the
/// version (`v=5`) or nothing, then for asf parameters as NFD writes them, such as
/// `probing-interval~1000` (in ms) and `max-timeouts~3`. Nothing when there is none of that name.
/// `counters` outlives it.
std::optional<NamedStrategy> make_strategy(wire::NameView name, std::uint64_t seed,
                                           StrategyCounters& counters);

/// `/localhost/nfd/strategy/best-route/v=5`.
wire::Name default_strategy_name();

}  // namespace innet::forwarding::strategies
