#include "switch_emulator/tables/compact.hpp"

#include <algorithm>

namespace innet::tables {

PacketRef compact(const PacketRef& packet, PacketPool& pool) {
    constexpr std::size_t kNotWorthACopy = 512;
    if (packet.pinned_bytes() <= std::max(2 * packet.size(), kNotWorthACopy)) return packet;
    PacketRef copy = pool.copy_of(packet);
    return copy.pinned_bytes() < packet.pinned_bytes() ? copy : packet;
}

}  // namespace innet::tables
