// Faces come and go, and differ: other nodes of innet, and foreign programs near and far.

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

FaceId Node::State::add_face(const FaceOptions& face_options) {
    auto face = static_cast<FaceId>(faces.size());
    if (!free_faces.empty()) {
        face = free_faces.front();
        free_faces.pop_front();
    } else if (faces.size() > kMaxNetworkFace) {
        return kNoFace;
    } else {
        faces.emplace_back();
        outbox.resize(faces.size());
    }
    faces[face] = {};
    faces[face].number = next_face_number++;
    faces_by_number.emplace(faces[face].number, face);
    faces[face].options = face_options;
    if (face_options.foreign) faces[face].bound_to = jobs::kNoJob;
    liveness.add_face(face, !face_options.foreign);
    pit.add_face(face, face_options.foreign);
    return face;
}

void Node::State::on_face_closed(FaceId face, TimePoint now) {
    faces[face].open = false;
    faces_by_number.erase(faces[face].number);
    // Management knows the prefixes of its routes, and then the FIB is rarely looked through.
    if (management != nullptr) management->on_face_closed(face);
    fib.remove_face(face);
    outbox.queue(face).clear();
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
    pit.collect_asked(face, entries);
    for (tables::PitEntry* entry : entries) {
        tables::OutRecord* upstream = entry->find_out_record(face);
        if (!upstream->nacked) {
            on_upstream_lost(*entry, *upstream, wire::NackReason::kNoRoute, now);
        }
    }
}

// The face's number will be another's, which was asked for none of this.
void Node::State::forget_upstream(FaceId face) {
    std::vector<tables::PitEntry*> entries;
    pit.collect_asked(face, entries);
    for (tables::PitEntry* entry : entries) {
        dead_nonces.add(entry->key.hash, entry->find_out_record(face)->nonce);
        pit.erase_out_record(*entry, face);
    }
}

// Nobody is asked back who waits no more: the face's number may be another's by then.
void Node::State::erase_in_record(tables::PitEntry& entry, FaceId face) {
    pit.erase_in_record(entry, face);
    if (entry.way_back != nullptr && entry.way_back->face == face) remove_way_back(entry);
}

bool Node::State::may_go(NameScope scope, FaceId from, FaceId to) const {
    if (scope == NameScope::kGlobal || is_local(to)) return true;
    return scope == NameScope::kLocalhop && is_local(from);
}

void Node::State::on_scope_violation(FaceId face) {
    ++counters.scope_violations;
    ++faces[face].counters.scope_violations_in;
}

void Node::State::on_face_over_share(const IncomingInterest& interest) {
    ++counters.over_share;
    ++faces[interest.face].counters.over_share_in;
    refuse_directly(interest, wire::NackReason::kCongestion);
}

}  // namespace innet::forwarding
