// An entry ends without an answer, or with one.

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

void Node::State::on_interest_expired(tables::PitEntry& entry, TimePoint now) {
    if (entry.expiry > now) {
        pit.timers().schedule(entry, entry.expiry, now);
        return;
    }
    ++counters.pit_expired;
    finish(entry);
}

void Node::State::on_face_closed(FaceId face, TimePoint now) {
    faces[face].open = false;
    fib.remove_face(face);
    if (management != nullptr) management->on_face_closed(face);
    outbox.queue(face).clear();
    std::vector<tables::PitEntry*> entries;
    pit.collect_all(entries);
    for (tables::PitEntry* entry : entries) {
        pit.erase_in_record(*entry, face);
        if (entry->in_records().empty()) {
            finish(*entry);
        }
    }
    on_peer_gone(face, now);
}

void Node::State::on_peer_gone(FaceId face, TimePoint now) {
    std::vector<tables::PitEntry*> entries;
    pit.collect_all(entries);
    for (tables::PitEntry* entry : entries) {
        tables::OutRecord* upstream = entry->find_out_record(face);
        if (upstream != nullptr && !upstream->nacked) {
            on_upstream_lost(*entry, *upstream, wire::NackReason::kNoRoute, now);
        }
    }
}

void Node::State::finish(tables::PitEntry& entry) {
    if (entry.in_reduction) reducer.abandon(entry.key.name);
    for (const tables::OutRecord& record : entry.out_records()) {
        dead_nonces.add(entry.key.hash, record.nonce);
    }
    pit.erase(entry);
}

}  // namespace innet::forwarding
