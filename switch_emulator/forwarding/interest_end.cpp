// An entry ends without an answer, or with one.

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

void Node::State::on_interest_expired(tables::PitEntry& entry, TimePoint now) {
    if (entry.expiry > now) {
        pit.timers().schedule(entry, entry.expiry, now);
        return;
    }
    ++counters.pit_expired;
    if (strategies::Strategy* strategy = told_strategy(entry)) {
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
    if (strategies::Strategy* strategy = told_strategy(entry)) strategy->on_entry_ended(entry);
    if (entry.way_back != nullptr) remove_way_back(entry);
    for (const tables::OutRecord& record : entry.out_records()) {
        dead_nonces.add(entry.key.hash, record.nonce);
    }
    pit.erase(entry);
}

}  // namespace innet::forwarding
