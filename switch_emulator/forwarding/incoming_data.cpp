// Data comes in, or is made here: verification, content store, everyone who waits.

#include "switch_emulator/forwarding/node_state.hpp"

namespace innet::forwarding {

void Node::State::on_incoming_data(FaceId face, const PacketRef& packet, bool marked,
                                   TimePoint now) {
    const auto data = wire::DataView::parse(packet.bytes());
    if (!data) return on_malformed_packet(face);
    ++faces[face].counters.data_in;
    const tables::NamePrefixes name(data->name());
    collect_waiting(*data, name);
    if (waiting.empty()) return on_unsolicited_data();

    Recipients recipients = Recipients::kEveryone;
    switch (keyring.verify(*data)) {
        case security::Verdict::kInvalid:
            // Who waits goes on waiting: a forger must not be able to make the true Data
            // unsolicited.
            ++counters.invalid_signature;
            return;
        case security::Verdict::kUnknownKey:
            ++counters.unknown_key;
            recipients = Recipients::kNetworkOnly;
            break;
        case security::Verdict::kValid:
            if (is_worth_caching(*data)) content_store.insert(*data, name, packet, now);
            break;
    }
    for (tables::PitEntry* entry : waiting) {
        satisfy(*entry, {packet, *data, face, marked, now}, recipients);
    }
}

void Node::State::on_unsolicited_data() { ++counters.unsolicited_data; }

void Node::State::on_local_data(const PacketRef& packet, bool marked, TimePoint now) {
    const auto data = wire::DataView::parse(packet.bytes());
    if (!data) return;
    const tables::NamePrefixes name(data->name());
    collect_waiting(*data, name);
    if (is_worth_caching(*data)) content_store.insert(*data, name, packet, now);
    for (tables::PitEntry* entry : waiting) {
        entry->in_reduction = false;  // it has come to its end
        satisfy(*entry, {packet, *data, kNoFace, marked, now}, Recipients::kEveryone);
    }
}

void Node::State::collect_waiting(const wire::DataView& data, const tables::NamePrefixes& name) {
    waiting.clear();
    pit.collect_matches(name, waiting);
    if (pit.digest_entries() != 0) {
        pit.collect_digest_matches(name, sha256.digest(data.whole()), waiting);
    }
}

// Operands that only the reducer of this node wants would push out what others ask for.
bool Node::State::is_worth_caching(const wire::DataView& data) const {
    if (data.tensor_error()) return false;
    if (waiting.empty()) return true;
    for (const tables::PitEntry* entry : waiting) {
        for (const tables::InRecord& record : entry->in_records()) {
            if (record.face != kReducerFace) return true;
        }
    }
    return false;
}

void Node::State::satisfy(tables::PitEntry& entry, const Answer& answer, Recipients recipients) {
    for (const tables::InRecord& record : entry.in_records()) {
        if (record.expiry <= answer.now || record.face == answer.from) continue;
        if (is_network(record.face)) {
            send_data(record.face, record.token.view(), answer);
        } else if (recipients == Recipients::kEveryone) {
            requester(record.face).on_data(answer.view, answer.packet, answer.marked, answer.now);
        }
    }
    if (recipients == Recipients::kNetworkOnly) {
        // An asker of this node waits for Data that it can verify.
        pit.erase_in_records_if(
            entry, [](const tables::InRecord& record) { return is_network(record.face); });
        if (!entry.in_records().empty()) return;
    }
    finish(entry);
}

}  // namespace innet::forwarding
