#pragma once
// For tables that keep packets: not a whole receive buffer for the sake of one small packet in it.

#include "transport/buffer/packet_ref.hpp"

namespace innet::tables {

/// `packet` itself, or a copy when the buffer that it keeps alive is more than twice its size (a
/// datagram that came in a coalesced receive buffer) and the copy takes less.
PacketRef compact(const PacketRef& packet, PacketPool& pool);

}  // namespace innet::tables
