#include <algorithm>

#include "switch_emulator/forwarding/face.hpp"

namespace innet {

std::vector<OutgoingPacket>& Outbox::busy_queue(FaceId face) {
    Queue& queue = queues_[face];
    if (!queue.is_busy) {
        queue.is_busy = true;
        busy_.push_back(face);
    }
    return queue.packets;
}

void Outbox::send(FaceId face, OutgoingPacket packet) {
    busy_queue(face).push_back(std::move(packet));
}

void Outbox::send(FaceId face, PacketRef payload, const wire::LpFields& fields) {
    OutgoingPacket& packet = busy_queue(face).emplace_back();
    if (!fields.empty()) {
        // 96 bytes hold every header that a node writes: a token of 32 bytes, a mark, a number, a
        // Nack or a Hold.
        packet.header_size = static_cast<std::uint8_t>(
            wire::encode_lp_header(fields, payload.size(), packet.header));
    }
    packet.payload = std::move(payload);
}

void Outbox::take_busy(std::vector<FaceId>& into) {
    for (const FaceId face : busy_) queues_[face].is_busy = false;
    into.insert(into.end(), busy_.begin(), busy_.end());
    busy_.clear();
}

void Outbox::resize(std::size_t faces) {
    queues_.resize(faces);
    busy_.reserve(faces);
}

bool Outbox::empty() const {
    return std::ranges::all_of(queues_, [](const auto& queue) { return queue.packets.empty(); });
}

}  // namespace innet
