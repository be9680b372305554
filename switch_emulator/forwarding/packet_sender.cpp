#include "switch_emulator/forwarding/packet_sender.hpp"

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

void PacketSender::send_interest(FaceId face, const PacketRef& interest) {
    transmit(face, interest, {});
    ++faces_.counters(face).interests_out;
}

void PacketSender::send_data(FaceId face, wire::ByteView pit_token, const PacketRef& data,
                             bool marked) {
    if (!faces_.is_open(face) || (!faces_.options(face).trusted && !ensure_mac(data))) return;
    wire::LpFields fields;
    fields.pit_token = pit_token;
    fields.congestion_mark = marked ? 1 : 0;
    transmit(face, data, fields);
    ++faces_.counters(face).data_out;
}

void PacketSender::send_nack(FaceId face, wire::ByteView pit_token, const PacketRef& interest,
                             wire::NackReason reason) {
    if (!faces_.is_open(face) || !interest) return;
    wire::LpFields fields;
    fields.pit_token = pit_token;
    fields.nack = faces_.is_foreign(face) ? as_foreigners_know_it(reason) : reason;
    transmit(face, interest, fields);
    ++faces_.counters(face).nacks_out;
}

void PacketSender::send_hold(FaceId face, wire::ByteView pit_token, const PacketRef& interest,
                             wire::ByteView missing) {
    if (!faces_.is_open(face) || faces_.is_foreign(face) || !interest) return;
    wire::LpFields fields;
    fields.pit_token = pit_token;
    fields.hold_missing = missing;
    transmit(face, interest, fields);
    ++faces_.counters(face).holds_out;
}

void PacketSender::send_hello(FaceId face, bool receives) {
    wire::LpFields fields;
    fields.hello = receives;
    transmit(face, PacketRef(), fields);
}

void PacketSender::transmit(FaceId face, const PacketRef& payload, wire::LpFields fields) {
    const FaceOptions& options = faces_.options(face);
    const bool is_kept = options.lossy && payload;
    if (!options.takes_parts || is_kept) payload.take_in();
    if (is_kept) fields.tx_sequence = links.next_number(face);
    outbox.send(face, payload, fields);
    const std::size_t size = outbox.queue(face).back().size();
    if (size > options.max_packet_bytes) [[unlikely]] {
        outbox.queue(face).pop_back();
        ++counters_.too_large;
        ++faces_.counters(face).too_large_out;
        return;
    }
    faces_.counters(face).bytes_out += size;
    if (is_kept) {
        faces_.counters(face).given_up_out += links.on_sent(face, outbox.queue(face).back(), now_);
    }
}

void PacketSender::send_due() {
    for (FaceId face = links.due_face(now_); face != kNoFace; face = links.due_face(now_)) {
        due_.clear();
        const auto done = links.take_due(face, now_, due_);
        FaceCounters& counters = faces_.counters(face);
        counters.repeated_out += done.repeated;
        counters.given_up_out += done.given_up;
        counters.acknowledgements_out += due_.size() - done.repeated;
        for (OutgoingPacket& packet : due_) {
            counters.bytes_out += packet.size();
            outbox.send(face, std::move(packet));
        }
    }
}

bool PacketSender::ensure_mac(const PacketRef& data) {
    if (!data.mac_due()) return true;
    const auto frame = wire::DataFrame::parse(data.parts());
    security::Signer* signer = frame ? reducer_.signer_of(frame->name, frame->key_name) : nullptr;
    if (signer != nullptr && security::add_mac(data, *frame, *signer)) return true;
    INNET_LOG(kForwarding, "drops it: no key here makes its MAC");
    ++counters_.mac_missing;
    return false;
}

}  // namespace innet::forwarding
