#pragma once

#include "switch_emulator/forwarding/strategies/strategy.hpp"

namespace innet::forwarding::strategies {

/// Asks the cheapest next hop; the next one only when that has refused or closed. The default.
class BestRoute final : public Strategy {
  public:
    Outcome after_receive_interest(const UpstreamRequest& request,
                                   StrategyActions& actions) override;
};

}  // namespace innet::forwarding::strategies
