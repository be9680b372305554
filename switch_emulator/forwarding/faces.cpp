// Adds and closes faces: links to other nodes of innet, local and remote programs.

#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

FaceId Node::State::add_face(const FaceOptions& face_options) {
    const FaceId face = faces.add(face_options);
    if (face == kNoFace) return face;
    sender.outbox.resize(faces.size());
    sender.links.add_face(face);
    liveness.add_face(face, !face_options.foreign);
    pit.add_face(face, face_options.foreign);
    set_lossy(face, face_options.lossy);
    return face;
}

// A foreign program may not know acknowledgements, and a trusted link is memory.
void Node::State::set_lossy(FaceId face, bool lossy) {
    const bool is_link = !faces.is_foreign(face) && !faces.options(face).trusted;
    const bool is_repeated = options.link_repetition == LinkRepetition::kAll ||
                             (options.link_repetition == LinkRepetition::kLossy && lossy);
    faces.set_lossy(face, is_link && is_repeated);
}

void Node::State::on_face_closed(FaceId face, TimePoint now) {
    faces.close(face);
    // Management knows the prefixes of its routes, and then the FIB is rarely looked through.
    if (management != nullptr) management->on_face_closed(face);
    fib.remove_face(face);
    sender.outbox.queue(face).clear();
    sender.links.add_face(face);
    reassembler.forget(face);
    std::vector<tables::PitEntry*> entries;
    pit.collect_waiting(face, entries);
    for (tables::PitEntry* entry : entries) {
        erase_in_record(*entry, face);
        if (entry->in_records().empty()) abandon(*entry);
    }
    on_peer_gone(face, now);
    forget_upstream(face);
    strategy_table.for_each_strategy(
        [&](strategies::Strategy& strategy) { strategy.on_face_closed(face); });
}

void Node::State::on_peer_gone(FaceId face, TimePoint now) {
    std::vector<tables::PitEntry*> entries;
    pit.collect_upstream(face, entries);
    for (tables::PitEntry* entry : entries) {
        tables::OutRecord* upstream = entry->find_out_record(face);
        if (!upstream->nacked) {
            on_upstream_lost(*entry, *upstream, wire::NackReason::kNoRoute, now);
        }
    }
}

// A later face gets this number, and must not inherit the out-records.
void Node::State::forget_upstream(FaceId face) {
    std::vector<tables::PitEntry*> entries;
    pit.collect_upstream(face, entries);
    for (tables::PitEntry* entry : entries) {
        dead_nonces.add(entry->key.hash, entry->find_out_record(face)->nonce);
        pit.erase_out_record(*entry, face);
    }
}

// A face without an in-record receives no reflexive Interests: a later face may get its number.
void Node::State::erase_in_record(tables::PitEntry& entry, FaceId face) {
    pit.erase_in_record(entry, face);
    if (entry.reflexive_route != nullptr && entry.reflexive_route->face == face)
        remove_reflexive_route(entry);
}

void Node::State::on_scope_violation(FaceId face) {
    INNET_LOG(kForwarding, "drops a packet of /localhost from remote face " << face);
    ++counters.scope_violations;
    ++faces.counters(face).scope_violations_in;
}

void Node::State::on_face_over_share(const IncomingInterest& interest) {
    INNET_LOG(kForwarding, "refuses it: the face has used its share of the PIT");
    ++counters.over_share;
    ++faces.counters(interest.face).over_share_in;
    refuse_directly(interest, wire::NackReason::kCongestion);
}

}  // namespace innet::forwarding
