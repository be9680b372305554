#pragma once

#include "switch_emulator/forwarding/strategies/strategy.hpp"

namespace innet::forwarding::strategies {

/// Forwards to the cheapest next hop; to another one when that has refused or closed. A
/// retransmission goes to the cheapest next hop that was not used for the Interest yet, and when
/// all were, to the one that was used first (NFD Developer's Guide, section 5.2.1). The default.
class BestRoute final : public Strategy {
  public:
    Outcome after_receive_interest(const UpstreamRequest& request,
                                   StrategyActions& actions) override;

  private:
    static const tables::NextHop* for_retransmission(const UpstreamRequest& request,
                                                     const StrategyActions& actions);
};

}  // namespace innet::forwarding::strategies
