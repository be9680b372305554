#include "switch_emulator/forwarding/strategies/best_route.hpp"

namespace innet::forwarding::strategies {

Outcome BestRoute::after_receive_interest(const UpstreamRequest& request,
                                          StrategyActions& actions) {
    const tables::NextHop* hop =
        request.repeated ? for_retransmission(request, actions) : cheapest(request, actions);
    if (hop == nullptr) return Outcome::kNoNextHop;
    actions.forward(request, hop->face, Nonce::kSame);
    return Outcome::kForwarded;
}

const tables::NextHop* BestRoute::for_retransmission(const UpstreamRequest& request,
                                                     const StrategyActions& actions) {
    const tables::Way way = request.entry.way_of(request.view);
    const tables::NextHop* unused = nullptr;
    const tables::NextHop* earliest = nullptr;
    TimePoint earliest_sent;
    for (const tables::NextHop& hop : request.route.next_hops) {
        if (!actions.may_forward(request, hop.face)) continue;
        const tables::OutRecord* record = request.entry.find_out_record(hop.face);
        if (record == nullptr || record->way != way) {
            if (unused == nullptr) unused = &hop;
            continue;
        }
        if (record->held) return &hop;  // it is not silent: its answer will be late
        if (earliest == nullptr || record->sent < earliest_sent) {
            earliest = &hop;
            earliest_sent = record->sent;
        }
    }
    return unused != nullptr ? unused : earliest;
}

}  // namespace innet::forwarding::strategies
