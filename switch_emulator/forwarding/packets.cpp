// Packets arrive from faces.

#include "switch_emulator/forwarding/interest_rewriting.hpp"
#include "switch_emulator/forwarding/node_state.hpp"
#include "transport/debug_log.hpp"

namespace innet::forwarding {

void Node::State::on_packet(FaceId face, const PacketRef& packet, TimePoint now,
                            const security::Sha256Digest* data_digest) {
    faces.counters(face).bytes_in += packet.size() + packet.virtual_bytes();
    liveness.on_received(face);
    const auto link = wire::LpView::parse(packet.bytes());
    if (!link) return on_malformed_packet(face);
    if (link->fragment()) [[unlikely]]
        return on_fragment(face, packet, *link, now);
    on_link_packet(face, packet, *link, now, data_digest);
}

void Node::State::on_fragment(FaceId face, const PacketRef& packet, const wire::LpView& fragment,
                              TimePoint now) {
    PacketRef whole;
    const std::size_t max_bytes = faces.options(face).max_packet_bytes;
    const auto outcome = reassembler.add(face, packet, fragment, max_bytes, now, whole);
    if (outcome == Reassembler::Outcome::kWaiting) return;
    const auto link = wire::LpView::parse(whole.bytes());
    if (outcome == Reassembler::Outcome::kRefused || !link) return on_malformed_packet(face);
    ++faces.counters(face).reassembled_in;
    on_link_packet(face, whole, *link, now, nullptr);
}

void Node::State::on_link_packet(FaceId face, const PacketRef& packet, const wire::LpView& link,
                                 TimePoint now, const security::Sha256Digest* data_digest) {
    if (!faces.is_foreign(face)) {
        if (link.has_acks()) sender.links.on_acknowledged(face, link, now);
        if (link.tx_sequence() && sender.links.on_received(face, *link.tx_sequence(), now)) {
            sender.send_due();
        }
    }
    if (link.hello()) liveness.on_hello(face, *link.hello());
    if (link.payload().empty()) return;  // an idle packet

    const PacketRef payload = packet.slice_of(link.payload());
    const std::uint8_t type = link.payload()[0];
    if (type == wire::kData && !link.nack() && !link.held()) {
        return on_incoming_data(face, payload, link.congestion_mark() != 0, now, data_digest);
    }
    if (type != wire::kInterest) return on_malformed_packet(face);
    // A Hold is a promise between nodes of one network.
    if (link.held() && faces.is_foreign(face)) return;
    if (!link.nack() && !link.held()) {
        return on_incoming_interest(face, payload, link.pit_token(), now);
    }
    const auto interest = wire::InterestView::parse(payload.bytes());
    if (!interest) return on_malformed_packet(face);
    if (link.nack()) {
        ++faces.counters(face).nacks_in;
        on_incoming_nack(face, *interest, *link.nack(), now);
    } else {
        ++faces.counters(face).holds_in;
        on_incoming_hold(face, *interest, link.hold_missing(), now);
    }
}

void Node::State::on_malformed_packet(FaceId face) {
    INNET_LOG(kForwarding, "face " << face << ": drops a malformed packet");
    ++counters.malformed;
    ++faces.counters(face).malformed_in;
}

void Node::State::on_hellos_due(TimePoint now) {
    liveness.on_timer(now);
    for (std::size_t i = 0; i < faces.size(); ++i) {
        const auto face = static_cast<FaceId>(i);
        if (!faces.is_open(face) || !liveness.is_watched(face)) continue;
        sender.send_hello(face, liveness.receives_from(face));
    }
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
