#include "switch_emulator/forwarding/strategies/best_route.hpp"

namespace innet::forwarding::strategies {

Outcome BestRoute::after_receive_interest(const UpstreamRequest& request,
                                          StrategyActions& actions) {
    const tables::NextHop* hop = cheapest(request, actions);
    if (hop == nullptr) return Outcome::kNoNextHop;
    actions.forward(request, hop->face, Nonce::kSame);
    return Outcome::kForwarded;
}

}  // namespace innet::forwarding::strategies
