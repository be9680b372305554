#pragma once
// The two fields of an Interest that a forwarder may change, each in a copy.

#include <cstdint>

#include "transport/buffer/packet_ref.hpp"
#include "transport/wire/interest.hpp"

namespace innet::forwarding {

/// A copy of a checked Interest with this Nonce, which is inserted when there is none
/// (NDN Packet Format v0.3, section 3.2: a forwarder adds a missing one). Empty when it does not
/// fit into a pool buffer.
PacketRef with_nonce(wire::ByteView interest, std::uint32_t nonce, PacketPool& pool);

/// A copy with this HopLimit; `interest` has one.
PacketRef with_hop_limit(const wire::InterestView& interest, std::uint8_t hop_limit,
                         PacketPool& pool);

}  // namespace innet::forwarding
