#include "switch_emulator/forwarding/strategies/first_answer.hpp"

namespace innet::forwarding::strategies {

Outcome FirstAnswer::after_receive_interest(const UpstreamRequest& request,
                                            StrategyActions& actions) {
    std::size_t sent = 0;
    for (const tables::NextHop& hop : request.route.next_hops) {
        if (sent == copies_) break;
        if (!actions.may_forward(request, hop.face)) continue;
        actions.forward(request, hop.face, Nonce::kSame);
        if (sent > 0) ++extra_;
        ++sent;
    }
    return sent > 0 ? Outcome::kForwarded : Outcome::kNoNextHop;
}

}  // namespace innet::forwarding::strategies
