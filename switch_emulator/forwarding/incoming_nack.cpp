// A way turned out to lead nowhere: another one, an evaluation by ourselves, or a Nack downstream.

#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

namespace {

/// From the node that was to answer: every other way leads to the same node.
bool comes_from_placed_node(wire::NackReason reason) {
    return reason == wire::NackReason::kNoSlot || reason == wire::NackReason::kNoRule ||
           reason == wire::NackReason::kNoData;
}

/// NackReasons are numbered by severity.
wire::NackReason less_severe(wire::NackReason a, wire::NackReason b) { return std::min(a, b); }

}  // namespace

void Node::State::on_incoming_nack(FaceId face, const wire::InterestView& interest,
                                   wire::NackReason reason, TimePoint now) {
    const tables::NamePrefixes name(interest.name());
    if (!faces.carries(face, job_of(name))) return on_forbidden_answer(face);
    tables::PitEntry* entry = pit.find(tables::PitKey::of(interest, name));
    INNET_LOG(kForwarding, "face " << face << ": Nack " << static_cast<unsigned>(reason) << " of "
                                   << interest.name().to_uri());
    if (entry == nullptr) return;
    tables::OutRecord* upstream = entry->find_out_record(face);
    // A Nack of an earlier transmission says nothing about the last one.
    if (upstream == nullptr || upstream->nacked || interest.nonce() != upstream->nonce) return;
    if (name.is_reflexive() && reason == wire::NackReason::kForbidden) {
        on_reflexive_interest_forbidden(name, face);
    }
    on_upstream_lost(*entry, *upstream, reason, now);
}

void Node::State::on_upstream_lost(tables::PitEntry& entry, tables::OutRecord& upstream,
                                   wire::NackReason reason, TimePoint now) {
    upstream.nacked = reason;
    if (strategies::Strategy* strategy = notified_strategy(entry)) {
        strategy->after_receive_nack(entry, upstream, reason, now);
    }
    entry.least_severe_nack =
        entry.least_severe_nack ? less_severe(*entry.least_severe_nack, reason) : reason;
    if (entry.in_reduction) return;
    if (entry.has_live_upstream()) {
        if (entry.several_ways) refuse_requesters(entry, upstream.way, reason, now);
        return;
    }
    if (!comes_from_placed_node(reason) && forward_elsewhere(entry, now)) {
        INNET_LOG(kForwarding, "forwards it to another next hop");
        return;
    }
    on_upstreams_exhausted(entry, *entry.least_severe_nack, now);
}

// Requesters that named another node may still be answered by it. That node may be one of the
// requesters here, and must not wait for itself.
void Node::State::refuse_requesters(tables::PitEntry& entry, tables::Way way,
                                    wire::NackReason reason, TimePoint now) {
    for (const tables::InRecord* record = entry.first_in; record != nullptr;) {
        const tables::InRecord* next = record->next;
        if (record->way == way) {
            reject(entry, *record, reason, now);
            erase_in_record(entry, record->face);
        }
        record = next;
    }
    if (entry.in_records().empty()) finish(entry);
}

void Node::State::on_upstreams_exhausted(tables::PitEntry& entry, wire::NackReason reason,
                                         TimePoint now) {
    if (!entry.fallback_tried) {
        entry.fallback_tried = true;
        const auto admission = reducer.admit(entry.key.name, true, now);
        entry.in_reduction = admission == reduction::Admission::kAccepted;
        if (entry.in_reduction) {
            INNET_LOG(kForwarding, "evaluates the sum here");
            return;
        }
    }
    INNET_LOG(kForwarding, "no next hop is left: Nacks all requesters");
    for (const tables::InRecord& record : entry.in_records()) reject(entry, record, reason, now);
    finish(entry);
}

void Node::State::reject(tables::PitEntry& entry, const tables::InRecord& record,
                         wire::NackReason reason, TimePoint now) {
    if (is_network(record.face)) {
        sender.send_nack(record.face, record.token.view(), interest_of(entry, record), reason);
    } else {
        requester(record.face).on_nack(entry.key.name, reason, now);
    }
}

}  // namespace innet::forwarding
