#include <algorithm>

#include "switch_emulator/forwarding/face.hpp"

namespace innet {

void Outbox::send(FaceId face, PacketRef payload, const wire::LpFields& fields) {
    OutgoingPacket& packet = queues_[face].emplace_back();
    if (!fields.empty()) {
        // 96 bytes hold every header that a node writes: a token of 32 bytes, a mark, a Nack or a
        // Hold.
        packet.header_size = static_cast<std::uint8_t>(
            wire::encode_lp_header(fields, payload.size(), packet.header));
    }
    packet.payload = std::move(payload);
}

bool Outbox::empty() const {
    return std::ranges::all_of(queues_, [](const auto& queue) { return queue.empty(); });
}

}  // namespace innet
