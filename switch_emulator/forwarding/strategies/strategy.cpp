#include "switch_emulator/forwarding/strategies/strategy.hpp"

namespace innet::forwarding::strategies {

const tables::NextHop* Strategy::cheapest(const UpstreamRequest& request,
                                          const StrategyActions& actions) {
    for (const tables::NextHop& hop : request.route.next_hops) {
        if (actions.may_forward(request, hop.face)) return &hop;
    }
    return nullptr;
}

}  // namespace innet::forwarding::strategies
