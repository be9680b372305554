// Receives packets from faces and sends packets to them.

#include "switch_emulator/forwarding/interest_rewriting.hpp"
#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"
#include "transport/security/late_mac.hpp"

namespace innet::forwarding {

namespace {

/// The reason that NFD would give.
wire::NackReason as_foreigners_know_it(wire::NackReason reason) {
    switch (reason) {
        case wire::NackReason::kNoSlot:
            return wire::NackReason::kCongestion;
        case wire::NackReason::kNoRule:
        case wire::NackReason::kForbidden:
        case wire::NackReason::kNoData:
            return wire::NackReason::kNoRoute;
        default:
            return reason;
    }
}

}  // namespace

void Node::State::on_packet(FaceId face, const PacketRef& packet, TimePoint now,
                            const security::Sha256Digest* data_digest) {
    FaceCounters& face_counters = faces[face].counters;
    face_counters.bytes_in += packet.size() + packet.virtual_bytes();
    liveness.on_received(face);
    const auto link = wire::LpView::parse(packet.bytes());
    if (!link) return on_malformed_packet(face);
    if (link->fragment()) [[unlikely]]
        return on_fragment(face, packet, *link, now);
    on_link_packet(face, packet, *link, now, data_digest);
}

// Between nodes of innet a link's MTU is the size of its packets.
void Node::State::on_fragment(FaceId face, const PacketRef& packet, const wire::LpView& fragment,
                              TimePoint now) {
    if (!is_foreign(face)) return on_malformed_packet(face);
    PacketRef whole;
    const auto outcome = reassembler.add(face, packet, fragment, now, whole);
    if (outcome == Reassembler::Outcome::kWaiting) return;
    const auto link = wire::LpView::parse(whole.bytes());
    if (outcome == Reassembler::Outcome::kRefused || !link) return on_malformed_packet(face);
    ++faces[face].counters.reassembled_in;
    on_link_packet(face, whole, *link, now, nullptr);
}

void Node::State::on_link_packet(FaceId face, const PacketRef& packet, const wire::LpView& link,
                                 TimePoint now, const security::Sha256Digest* data_digest) {
    if (link.hello()) liveness.on_hello(face, *link.hello());
    if (link.payload().empty()) return;  // an idle packet

    const PacketRef payload = packet.slice_of(link.payload());
    const std::uint8_t type = link.payload()[0];
    if (type == wire::kData && !link.nack() && !link.held()) {
        return on_incoming_data(face, payload, link.congestion_mark() != 0, now, data_digest);
    }
    if (type != wire::kInterest) return on_malformed_packet(face);
    // A Hold is a promise between nodes of one network.
    if (link.held() && is_foreign(face)) return;
    if (!link.nack() && !link.held()) {
        return on_incoming_interest(face, payload, link.pit_token(), now);
    }
    const auto interest = wire::InterestView::parse(payload.bytes());
    if (!interest) return on_malformed_packet(face);
    if (link.nack()) {
        ++faces[face].counters.nacks_in;
        on_incoming_nack(face, *interest, *link.nack(), now);
    } else {
        ++faces[face].counters.holds_in;
        on_incoming_hold(face, *interest, link.hold_missing(), now);
    }
}

void Node::State::on_malformed_packet(FaceId face) {
    INNET_LOG(kForwarding, "face " << face << ": drops a malformed packet");
    ++counters.malformed;
    ++faces[face].counters.malformed_in;
}

void Node::State::on_hellos_due(TimePoint now) {
    liveness.on_timer(now);
    for (std::size_t i = 0; i < faces.size(); ++i) {
        const auto face = static_cast<FaceId>(i);
        if (!is_open(face) || !liveness.is_watched(face)) continue;
        wire::LpFields fields;
        fields.hello = liveness.receives_from(face);
        transmit(face, PacketRef(), fields);
    }
}

void Node::State::transmit(FaceId face, const PacketRef& payload, const wire::LpFields& fields) {
    if (!faces[face].options.takes_parts) payload.take_in();
    outbox.send(face, payload, fields);
    const std::size_t size = outbox.queue(face).back().size();
    if (size > faces[face].options.max_packet_bytes) [[unlikely]] {
        outbox.queue(face).pop_back();
        ++counters.too_large;
        ++faces[face].counters.too_large_out;
        return;
    }
    faces[face].counters.bytes_out += size;
}

void Node::State::send_data(FaceId face, wire::ByteView pit_token, const PacketRef& data,
                            bool marked) {
    if (!is_open(face) || (!faces[face].options.trusted && !ensure_mac(data))) return;
    wire::LpFields fields;
    fields.pit_token = pit_token;
    fields.congestion_mark = marked ? 1 : 0;
    transmit(face, data, fields);
    ++faces[face].counters.data_out;
}

bool Node::State::ensure_mac(const PacketRef& data) {
    if (!data.mac_due()) return true;
    const auto view = wire::DataView::parse(data.bytes());
    security::Signer* signer = view ? reducer.signer_of(view->name(), view->key_name()) : nullptr;
    if (signer != nullptr && security::add_mac(data, *view, *signer)) return true;
    INNET_LOG(kForwarding, "drops it: no key here makes its MAC");
    ++counters.mac_missing;
    return false;
}

void Node::State::send_nack(FaceId face, wire::ByteView pit_token, const PacketRef& interest,
                            wire::NackReason reason) {
    if (!is_open(face) || !interest) return;
    wire::LpFields fields;
    fields.pit_token = pit_token;
    fields.nack = is_foreign(face) ? as_foreigners_know_it(reason) : reason;
    transmit(face, interest, fields);
    ++faces[face].counters.nacks_out;
}

void Node::State::send_hold(FaceId face, wire::ByteView pit_token, const PacketRef& interest,
                            wire::ByteView missing) {
    if (!is_open(face) || is_foreign(face) || !interest) return;
    wire::LpFields fields;
    fields.pit_token = pit_token;
    fields.hold_missing = missing;
    transmit(face, interest, fields);
    ++faces[face].counters.holds_out;
}

PacketRef Node::State::interest_of(const tables::PitEntry& entry, const tables::InRecord& record) {
    return entry.interest_nonce == record.nonce
               ? entry.interest
               : with_nonce(entry.interest.bytes(), record.nonce, pool);
}

Requester& Node::State::requester(FaceId face) {
    if (face == kReducerFace) return reducer;
    return *application;
}

}  // namespace innet::forwarding
