// An entry ends without an answer, or with one.

#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

void Node::State::on_entry_due(tables::PitEntry& entry, TimePoint now) {
    if (entry.expiry > now) {
        if (entry.hold_due) on_hold_due(entry, now);
        pit.timers().schedule(entry, entry.expiry, now);
        return;
    }
    INNET_LOG(kForwarding, "expires " << entry.key.name.to_uri());
    ++counters.pit_expired;
    if (strategies::Strategy* strategy = notified_strategy(entry)) {
        strategy->after_interest_timeout(entry, now);
    }
    abandon(entry);
}

// Another Interest for the name, with other selectors, may have an entry of its own.
void Node::State::abandon(tables::PitEntry& entry) {
    if (entry.awaited_here && application != nullptr && !pit.is_awaited_by_another(entry)) {
        application->forget(entry.key.name);
    }
    finish(entry);
}

void Node::State::finish(tables::PitEntry& entry) {
    if (entry.in_reduction) reducer.abandon(entry.key.name);
    if (strategies::Strategy* strategy = notified_strategy(entry)) strategy->on_entry_ended(entry);
    if (entry.reflexive_route != nullptr) remove_reflexive_route(entry);
    for (const tables::OutRecord& record : entry.out_records()) {
        dead_nonces.add(entry.key.hash, record.nonce);
    }
    pit.erase(entry);
}

}  // namespace innet::forwarding
