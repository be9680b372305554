// The Interest is where its Data will be made, and a rank is late: everyone who waits is told once.

#include <algorithm>

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

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
    on_late_rank(*entry, missing, now);
}

void Node::State::on_late_rank(tables::PitEntry& entry, wire::ByteView missing, TimePoint now) {
    const bool news = !std::ranges::equal(entry.missing.view(), missing);
    entry.missing.assign(missing);
    entry.held = true;
    for (tables::InRecord& record : entry.in_records()) {
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
