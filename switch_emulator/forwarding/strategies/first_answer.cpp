#include "switch_emulator/forwarding/strategies/first_answer.hpp"

namespace innet::forwarding::strategies {

Outcome FirstAnswer::after_receive_interest(const UpstreamRequest& request,
                                            StrategyActions& actions) {
    std::size_t asked = 0;
    for (const tables::NextHop& hop : request.route.next_hops) {
        if (asked == copies_) break;
        if (!actions.may_ask(request, hop.face)) continue;
        actions.ask(request, hop.face, Nonce::kSame);
        if (asked > 0) ++extra_;
        ++asked;
    }
    return asked > 0 ? Outcome::kAsked : Outcome::kNoNextHop;
}

}  // namespace innet::forwarding::strategies
