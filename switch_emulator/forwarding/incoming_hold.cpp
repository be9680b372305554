// The Interest is where its Data will be made, and a rank is late: everyone who waits for that node
// is told once.

#include <algorithm>

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

namespace {

/// Two ways may lead through one face: the nonce tells which of them is answered.
tables::Way way_answered(const tables::PitEntry& entry, const tables::OutRecord& upstream,
                         const wire::InterestView& interest) {
    if (!entry.several_ways) return tables::kFirstWay;
    for (const tables::InRecord& record : entry.in_records()) {
        if (record.nonce == interest.nonce()) return record.way;
    }
    return upstream.way;
}

}  // namespace

void Node::State::on_incoming_hold(FaceId face, const wire::InterestView& interest,
                                   wire::ByteView missing, TimePoint now) {
    const tables::NamePrefixes name(interest.name());
    if (!carries(face, job_of(name))) return on_forbidden_answer(face);
    tables::PitEntry* entry = pit.find(key_of(interest, name));
    if (entry == nullptr) return;
    tables::OutRecord* upstream = entry->find_out_record(face);
    if (upstream == nullptr || upstream->nacked) return;
    if (strategies::Strategy* strategy = told_strategy(*entry)) {
        strategy->after_receive_hold(*entry, *upstream, now);
    }
    if (interest.nonce() == upstream->nonce) upstream->held = true;
    on_late_rank(*entry, way_answered(*entry, *upstream, interest), missing, now);
}

// A Hold is not sent to those whose Interests name another node. One of them may be the node that
// sent it: it would take its own request for one that another node works on, and not repeat it.
void Node::State::on_late_rank(tables::PitEntry& entry, std::optional<tables::Way> way,
                               wire::ByteView missing, TimePoint now) {
    const bool news = !std::ranges::equal(entry.missing.view(), missing);
    entry.missing.assign(missing);
    entry.held = true;
    for (tables::InRecord& record : entry.in_records()) {
        if (way && record.way != *way) continue;
        if (news || !record.told_of_hold) tell_of_hold(entry, record, now);
    }
}

void Node::State::tell_of_hold(tables::PitEntry& entry, tables::InRecord& record, TimePoint now) {
    record.told_of_hold = true;
    if (is_network(record.face)) {
        send_hold(record.face, record.token.view(), interest_of(entry, record),
                  entry.missing.view());
    } else {
        requester(record.face).on_hold(entry.key.name, entry.missing.view(), now);
    }
}

}  // namespace innet::forwarding
